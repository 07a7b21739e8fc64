// The reader of weight_vNNNNNN folders: index text and tensor entries that nobody vouches for.
//
// The first byte chooses: an index, which if accepted must come back from its own writing; an entry of either encoding against
// live bytes, read twice in pieces of different sizes, which must agree; or content wrapped in a correct frame, so that the
// search reaches what lies behind Zstd.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "codec/zstd_stream.h"
#include "interchange/miles_index.h"
#include "interchange/patched_tensor.h"

namespace {

using namespace xorbit;

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzIndex(ConstBytes text) {
  const Result<MilesIndex> index = ParseMilesIndex(AsText(text));
  if (!index.ok()) return;
  const Result<MilesIndex> again = ParseMilesIndex(WriteMilesIndex(*index));
  Require(again.ok() && *again == *index);
}

Result<Buffer> Patch(MilesEncoding encoding, ConstBytes entry, ConstBytes live, size_t piece_bytes) {
  XORBIT_ASSIGN_OR_RETURN(PatchedTensorReader reader, PatchedTensorReader::Open(encoding, entry, live));
  Buffer news(live.size());
  for (size_t at = 0; at < news.size(); at += piece_bytes) {
    XORBIT_RETURN_IF_ERROR(reader.Next(MutableBytes(news).subspan(at, std::min(piece_bytes, news.size() - at))));
  }
  XORBIT_RETURN_IF_ERROR(reader.Finish());
  return news;
}

void FuzzEntry(MilesEncoding encoding, ConstBytes entry, ConstBytes live) {
  const Result<Buffer> whole = Patch(encoding, entry, live, live.size() + 1);
  const Result<Buffer> pieces = Patch(encoding, entry, live, 1 + live.size() / 7);
  Require(whole.ok() == pieces.ok());
  if (!whole.ok()) return;
  Require(*whole == *pieces);
  // Applied to its result, a mask gives the base back, and an overwrite changes nothing more.
  const Result<Buffer> again = Patch(encoding, entry, *whole, 1000);
  Require(again.ok());
  const ConstBytes expected = encoding == MilesEncoding::kXor ? live : ConstBytes(*whole);
  Require(std::equal(again->begin(), again->end(), expected.begin(), expected.end()));
}

Buffer FrameOf(ConstBytes content) {
  Result<ZstdFrameWriter> writer = ZstdFrameWriter::Make(1, content.size());
  Require(writer.ok() && writer->Write(content).ok());
  return std::move(writer->Finish()).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint8_t choice = data[0];
  const ConstBytes rest(data + 2, size - 2);
  if (choice % 4 == 0) {
    FuzzIndex(rest);
    return 0;
  }
  const auto encoding = choice % 8 < 4 ? MilesEncoding::kXor : MilesEncoding::kOverwrite;
  // The second byte is the length of the live tensor, in units that let frames of several blocks be met.
  Buffer live(size_t{data[1]} * (choice % 4 == 1 ? 1 : 1024));
  if (choice % 4 == 3 && encoding == MilesEncoding::kXor) live.resize(rest.size());  // other lengths end at once
  for (size_t i = 0; i < live.size(); ++i) live[i] = static_cast<uint8_t>(i * 7);
  if (choice % 4 == 3) {
    FuzzEntry(encoding, FrameOf(rest), live);
  } else {
    FuzzEntry(encoding, rest, live);
  }
  return 0;
}

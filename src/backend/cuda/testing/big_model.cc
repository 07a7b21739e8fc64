// Tensors of one kind are of one size, so that a model of any size has the same number of pieces.
#include "backend/cuda/testing/big_model.h"

#include <cmath>
#include <map>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/testing/formula_source.h"
#include "base/parallel.h"
#include "payload/payload_writer.h"

namespace xorbit::cuda::testing {
namespace {

TensorSpec Tensor(std::string name, Dtype dtype, std::vector<uint64_t> shape) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

std::string Padded(uint64_t number) {
  const std::string text = std::to_string(number);
  return std::string(6 - text.size(), '0') + text;
}

// Numbers the formula's bytes so that each segment's are consecutive, and places tensors in live memory in another order than
// the canonical one, as engines do that stack experts.
std::vector<SegmentMap> PlaceTensors(BigModel* model) {
  const std::vector<TensorSpec>& tensors = model->layout.tensors();
  std::map<uint32_t, std::vector<Part>> parts;
  for (uint32_t i = 0; i < tensors.size(); ++i) parts[UnitBytesOf(tensors[i].dtype)].push_back(WholeTensor(model->layout, i));
  model->first_bytes.resize(tensors.size());
  std::vector<SegmentMap> maps;
  for (auto& [unit_bytes, list] : parts) {
    for (const Part& part : list) {
      model->first_bytes[part.tensor_index] = model->byte_count;
      model->byte_count += tensors[part.tensor_index].byte_count;
    }
    maps.push_back(SegmentMap::Make(model->layout, unit_bytes, 0, std::move(list)).value());
  }
  constexpr size_t kStack = 64;
  model->places.resize(tensors.size());
  uint64_t at = 0;
  for (size_t begin = 0; begin < tensors.size(); begin += kStack) {
    for (size_t i = std::min(begin + kStack, tensors.size()); i-- > begin;) {
      model->places[i] = at;
      at += tensors[i].byte_count;
    }
  }
  return maps;
}

// One piece a tensor; tensors of one size and unit share their class.
Result<LiveMap> MapOf(const BigModel& model) {
  LiveMapSpec spec;
  spec.regions.push_back({"weights", model.byte_count});
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> classes;
  for (uint32_t i = 0; i < model.places.size(); ++i) {
    const TensorSpec& tensor = model.layout.tensors()[i];
    const uint32_t unit_bytes = UnitBytesOf(tensor.dtype);
    const auto [found, is_new] =
        classes.try_emplace({unit_bytes, tensor.unit_count()}, static_cast<uint32_t>(spec.classes.size()));
    if (is_new) {
      PieceClass whole;
      whole.granule_bits = 8 * unit_bytes;
      whole.digit_count = 1;
      whole.digits[0] = {tensor.unit_count(), 1, 1};
      spec.classes.push_back(whole);
    }
    Piece piece;
    piece.tensor_index = i;
    piece.class_index = found->second;
    piece.live_origin = model.places[i] / unit_bytes;
    spec.pieces.push_back(piece);
  }
  return LiveMap::Make(model.layout, std::move(spec));
}

double EntropyBits(double p) { return p <= 0 || p >= 1 ? 0 : -(p * std::log2(p) + (1 - p) * std::log2(1 - p)); }

// Segments of these maps, and the places of all tensors.
Result<std::vector<EncodedSegment>> EncodeSegments(CodecId codec, const std::vector<SegmentMap>& maps, BigModel* model) {
  XORBIT_ASSIGN_OR_RETURN(model->map, MapOf(*model));
  const auto backend = MakeCpuBackend();
  EncodeOptions options;
  options.threads = DefaultThreadCount();
  options.change_cache_bytes = uint64_t{24} << 30;
  std::vector<EncodedSegment> segments;
  uint64_t first_byte = 0;
  for (const SegmentMap& map : maps) {
    const FormulaSource source(model->formula, first_byte, map.unit_bytes(), map.element_count());
    XORBIT_ASSIGN_OR_RETURN(EncodedSegment segment, backend->Encode(model->layout, map, source, codec, options));
    const double elements = static_cast<double>(map.element_count());
    const double changes = static_cast<double>(segment.change_count);
    const double value_bits = model->formula.random_bytes ? 8 : 3;
    model->entropy_bytes += (elements * EntropyBits(changes / elements) + changes * value_bits) / 8;
    first_byte += map.byte_count();
    segments.push_back(std::move(segment));
  }
  return segments;
}

Status EncodeModel(CodecId codec, BigModel* model) {
  const std::vector<SegmentMap> maps = PlaceTensors(model);
  XORBIT_ASSIGN_OR_RETURN(std::vector<EncodedSegment> segments, EncodeSegments(codec, maps, model));
  XORBIT_ASSIGN_OR_RETURN(Payload payload,
                          WritePayload(model->layout, {codec, 0, 1}, maps, std::move(segments), DefaultThreadCount()));
  model->payload_bytes = std::move(payload.head);
  for (Buffer& piece : payload.body) {
    AppendBytes(model->payload_bytes, piece);
    piece = {};
  }
  XORBIT_ASSIGN_OR_RETURN(PayloadView view, ParsePayload(model->layout, model->payload_bytes));
  model->payloads.push_back(std::move(view));
  return {};
}

uint64_t ThresholdOf(double probability) { return static_cast<uint64_t>(std::llround(probability * 4294967296.0)); }

// Without places and update.
Result<BigModel> PlanShare(uint64_t byte_count, bool random_bytes) {
  constexpr uint64_t kExperts = 60'000;
  constexpr uint64_t kDenseLayers = 200;
  const uint64_t dense_bytes = byte_count / 17;
  const uint64_t dense_columns = dense_bytes / kDenseLayers / 2 / 64 * 64;
  // Two E2M1 values a byte, and a scale for 16 of them.
  const uint64_t packed_bytes = (byte_count - dense_bytes) / kExperts * 8 / 9 / 128 * 128;
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < kExperts; ++i) {
    const std::string name = "layers." + Padded(i / 1000) + ".experts." + Padded(i % 1000);
    tensors.push_back(Tensor(name + ".weight", Dtype::kU8, {packed_bytes}));
    tensors.push_back(Tensor(name + ".weight_scale", Dtype::kF8E4M3, {packed_bytes / 8}));
    tensors.push_back(Tensor(name + ".weight_scale_2", Dtype::kF32, {4}));
  }
  for (uint64_t i = 0; i < kDenseLayers; ++i) {
    tensors.push_back(Tensor("layers." + Padded(i) + ".attention.weight", Dtype::kBF16, {dense_columns}));
  }
  BigModel model;
  model.name = random_bytes ? "share-random" : "share";
  XORBIT_ASSIGN_OR_RETURN(model.layout, Layout::Make(std::move(tensors)));
  model.formula.cell_threshold = ThresholdOf(0.00085 * kCellBytes);
  model.formula.unit_bytes = 1;
  model.formula.random_bytes = random_bytes;
  return model;
}

}  // namespace

Result<BigModel> MakeShare(uint64_t byte_count, bool random_bytes, CodecId codec) {
  XORBIT_ASSIGN_OR_RETURN(BigModel model, PlanShare(byte_count, random_bytes));
  XORBIT_RETURN_IF_ERROR(EncodeModel(codec, &model));
  return model;
}

Result<UnsentModel> MakeUnsentShare(uint64_t byte_count) {
  UnsentModel unsent;
  XORBIT_ASSIGN_OR_RETURN(unsent.model, PlanShare(byte_count, false));
  unsent.model.formula.old_is_zero = true;
  unsent.maps = PlaceTensors(&unsent.model);
  XORBIT_ASSIGN_OR_RETURN(unsent.segments, EncodeSegments(CodecId::kSparse, unsent.maps, &unsent.model));
  return unsent;
}

Result<BigModel> MakeMatrices(Dtype dtype, uint64_t byte_count, double share_of_elements) {
  constexpr uint64_t kMatrixBytes = uint64_t{64} << 20;
  constexpr uint64_t kColumns = 4096;
  const uint32_t unit_bytes = UnitBytesOf(dtype);
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < byte_count / kMatrixBytes; ++i) {
    tensors.push_back(Tensor("layers." + Padded(i) + ".weight", dtype, {kMatrixBytes / unit_bytes / kColumns, kColumns}));
  }
  BigModel model;
  model.name = (unit_bytes == 2 ? "bf16-" : "fp8-") + std::to_string(share_of_elements * 100).substr(0, 5) + "%";
  XORBIT_ASSIGN_OR_RETURN(model.layout, Layout::Make(std::move(tensors)));
  model.formula.unit_bytes = unit_bytes;
  model.formula.element_threshold = ThresholdOf(share_of_elements);
  XORBIT_RETURN_IF_ERROR(EncodeModel(CodecId::kSparse, &model));
  return model;
}

}  // namespace xorbit::cuda::testing

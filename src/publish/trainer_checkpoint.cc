#include "publish/trainer_checkpoint.h"

#include "base/checksum_field.h"
#include "base/staged_folder.h"
#include "base/text.h"
#include "payload/delta_folder.h"
#include "payload/json_fields.h"
#include "store/fetch.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-trainer-checkpoint";
constexpr uint32_t kFormatVersion = 1;
constexpr std::string_view kReadyName = "READY.json";
constexpr uint64_t kMaxReadyBytes = uint64_t{64} << 10;

Sha256Digest DigestOf(const Manifest& manifest) { return Sha256Of(AsBytes(WriteManifest(manifest))); }

Result<Delta> FetchFromBase(Stream& stream, uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<Edge> edge, stream.FindEdge(0, version));
  if (edge) return FetchDelta(stream, *edge, {});
  return NotFoundError("the store has no single delta from version 0 to version " + std::to_string(version) +
                       ": publish the fold first");
}

// Whether the checkpoint is a version of this very stream.
Status CheckIdentity(Stream& stream, const TrainerIdentity& identity) {
  const StreamInfo& info = stream.info();
  if (identity.stream_id != info.stream_id) {
    return RefusedError("the checkpoint belongs to stream " + Quoted(identity.stream_id) + ", not to " +
                        Quoted(info.stream_id));
  }
  if (identity.base_fingerprint != info.base_fingerprint || identity.layout_digest != info.layout_digest) {
    return RefusedError("the checkpoint was trained from another base than the stream's version 0");
  }
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(identity.version));
  if (record.target == identity.target) return {};
  return RefusedError("version " + std::to_string(identity.version) + " of the stream has state " + ToText(record.target) +
                      ", the checkpoint's was " + ToText(identity.target));
}

// The saved delta, which leads from the stream's base to the version.
Result<Delta> OpenSaved(Stream& stream, const TrainerIdentity& identity, const fs::path& folder, int threads) {
  XORBIT_ASSIGN_OR_RETURN(Delta delta, OpenDeltaFolder(folder, {.threads = threads}));
  const Manifest& manifest = delta.manifest;
  if (DigestOf(manifest) != identity.manifest_sha256 || manifest.layout_digest != identity.layout_digest ||
      manifest.base != stream.info().base || manifest.target != identity.target) {
    return CorruptError("'" + folder.string() + "' does not hold the delta that READY.json names");
  }
  return delta;
}

}  // namespace

std::string WriteTrainerIdentity(const TrainerIdentity& identity) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["stream_id"] = identity.stream_id;
  json["base_fingerprint"] = ToHex(identity.base_fingerprint);
  json["layout_digest"] = ToHex(identity.layout_digest);
  json["version"] = identity.version;
  json["target_digest"] = ToText(identity.target);
  if (identity.version > 0) json["manifest_sha256"] = ToHex(identity.manifest_sha256);
  return DumpJson(json) + "\n";
}

Result<TrainerIdentity> ParseTrainerIdentity(std::string_view text) {
  const JsonShape shape =
      JsonShape::Object({"stream_id", "base_fingerprint", "layout_digest", "version", "target_digest", "manifest_sha256"});
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, shape, kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "stream_id", "base_fingerprint",
                                                    "layout_digest", "version", "target_digest", "manifest_sha256"}));
  TrainerIdentity identity;
  XORBIT_ASSIGN_OR_RETURN(identity.stream_id, GetId(json, "stream_id"));
  XORBIT_ASSIGN_OR_RETURN(identity.base_fingerprint, GetSha256(json, "base_fingerprint"));
  XORBIT_ASSIGN_OR_RETURN(identity.layout_digest, GetSha256(json, "layout_digest"));
  XORBIT_ASSIGN_OR_RETURN(identity.version, GetUnsigned(json, "version", kMaxVersion));
  XORBIT_ASSIGN_OR_RETURN(identity.target, GetStateDigest(json, "target_digest"));
  if (identity.version > 0) {
    XORBIT_ASSIGN_OR_RETURN(identity.manifest_sha256, GetSha256(json, "manifest_sha256"));
  }
  return identity;
}

Status SaveTrainerCheckpoint(FileOps& ops, Stream& stream, uint64_t version, const fs::path& checkpoint) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(version));
  const StreamInfo& info = stream.info();
  TrainerIdentity identity = {info.stream_id, info.base_fingerprint, info.layout_digest, version, record.target, {}};
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(ops, checkpoint / kTrainerCheckpointFolder));
  if (version > 0) {
    XORBIT_ASSIGN_OR_RETURN(const Delta delta, FetchFromBase(stream, version));
    identity.manifest_sha256 = DigestOf(delta.manifest);
    XORBIT_RETURN_IF_ERROR(WriteDeltaFiles(ops, staged.path(), delta));
    // The rename makes the folder whole; whoever copies it file by file has READY.json to go by.
    XORBIT_RETURN_IF_ERROR(ops.SyncFolder(staged.path()));
  }
  const std::string ready = WithChecksum(WriteTrainerIdentity(identity));
  XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, staged.path() / kReadyName, AsBytes(ready)));
  return staged.Publish();  // saved from here on
}

Result<TrainerIdentity> ReadTrainerIdentity(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kTrainerCheckpointFolder / kReadyName;
  XORBIT_ASSIGN_OR_RETURN(const Buffer text, ReadWholeFile(path, kMaxReadyBytes));
  XORBIT_RETURN_IF_ERROR(CheckChecksum(AsText(text)).WithContext(path.string()));
  auto identity = ParseTrainerIdentity(AsText(text));
  if (!identity.ok()) return identity.status().WithContext(path.string());
  return identity;
}

Result<RankPublisher> ResumeRank(Stream& stream, const Backend& backend, RankPlan plan, TensorBytes served,
                                 PublishOptions options, const fs::path& checkpoint) {
  XORBIT_ASSIGN_OR_RETURN(const TrainerIdentity identity, ReadTrainerIdentity(checkpoint));
  XORBIT_RETURN_IF_ERROR(CheckIdentity(stream, identity));
  RankPublisher publisher = RankPublisher::Make(stream, backend, std::move(plan), served, options);
  if (identity.version == 0) return publisher;
  std::vector<Delta> chain;
  XORBIT_ASSIGN_OR_RETURN(Delta delta,
                          OpenSaved(stream, identity, checkpoint / kTrainerCheckpointFolder, options.encode.threads));
  chain.push_back(std::move(delta));
  XORBIT_RETURN_IF_ERROR(publisher.CatchUp(identity.version, chain));
  return publisher;
}

}  // namespace xorbit

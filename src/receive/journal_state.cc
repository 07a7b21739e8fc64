#include "receive/journal_state.h"

#include <algorithm>

#include "receive/journal_reader.h"

namespace xorbit {
namespace {

constexpr std::string_view kFolderJournal = "journal";
constexpr std::string_view kFileSuffix = ".journal";
constexpr std::string_view kTemporarySuffix = ".tmp";

// The state that one sealed journal proves.
Result<JournalState> StateOf(const fs::path& journal) {
  Result<MappedFile> map = MappedFile::Open(journal);
  if (map.status().code() == Code::kNotFound) return JournalState::kNone;  // finished since it was listed
  if (!map.ok()) return map.status();
  return Journal::Parse(map->bytes()).status().code() == Code::kCorrupt ? JournalState::kDamaged : JournalState::kSealed;
}

// Appends where the journals of `link`'s target are, if it is a link to a file that is there.
Status AddPlaceBehind(const fs::path& link, std::vector<JournalPlace>* places) {
  std::error_code error;
  if (!fs::is_symlink(link, error)) return {};
  const fs::path target = fs::canonical(link, error);
  if (error) return {};  // dangling: opening it will say so
  XORBIT_ASSIGN_OR_RETURN(JournalPlace place, FindJournalPlace(target));
  places->push_back(std::move(place));
  return {};
}

// All places whose journals concern the checkpoint.
Result<std::vector<JournalPlace>> PlacesOf(const fs::path& checkpoint) {
  std::vector<JournalPlace> places;
  XORBIT_ASSIGN_OR_RETURN(places.emplace_back(), FindJournalPlace(checkpoint));
  if (!places.front().is_folder) {
    XORBIT_RETURN_IF_ERROR(AddPlaceBehind(checkpoint, &places));
    return places;
  }
  std::error_code error;
  for (fs::directory_iterator entry(checkpoint, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") XORBIT_RETURN_IF_ERROR(AddPlaceBehind(entry->path(), &places));
  }
  if (error) return ErrnoError("cannot list '" + checkpoint.string() + "'", error.value());
  return places;
}

// The worst that holds for any journal of one place.
Result<JournalState> StateAt(const JournalPlace& place) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<fs::path> unsealed, FindJournals(place, /*unsealed=*/true));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<fs::path> sealed, FindJournals(place, /*unsealed=*/false));
  JournalState worst = unsealed.empty() ? JournalState::kNone : JournalState::kUnsealed;
  for (const fs::path& journal : sealed) {
    XORBIT_ASSIGN_OR_RETURN(const JournalState state, StateOf(journal));
    worst = std::max(worst, state);
  }
  return worst;
}

}  // namespace

std::string_view NameOf(JournalState state) {
  switch (state) {
    case JournalState::kNone:
      return "none";
    case JournalState::kUnsealed:
      return "unsealed";
    case JournalState::kSealed:
      return "sealed";
    case JournalState::kDamaged:
      return "damaged";
  }
  return "none";
}

Result<JournalPlace> FindJournalPlace(const fs::path& checkpoint) {
  std::error_code error;
  const fs::file_status status = fs::status(checkpoint, error);
  if (error) return ErrnoError("cannot look at '" + checkpoint.string() + "'", error.value());
  JournalPlace place;
  place.is_folder = fs::is_directory(status);
  if (!place.is_folder && !fs::is_regular_file(status)) {
    return RefusedError("'" + checkpoint.string() + "' is neither a file nor a folder");
  }
  place.folder = place.is_folder ? checkpoint : checkpoint.parent_path();
  if (place.folder.empty()) place.folder = ".";
  place.control = place.folder / ".xorbit";
  place.journal = place.control / kFolderJournal;
  if (!place.is_folder) place.journal = place.control / (checkpoint.filename().string() += kFileSuffix);
  return place;
}

Result<std::vector<fs::path>> FindJournals(const JournalPlace& place, bool unsealed) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entries(place.control, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::string name = entries->path().filename().string();
    const bool is_temporary = name.ends_with(kTemporarySuffix);
    if (is_temporary != unsealed) continue;
    if (is_temporary) name.resize(name.size() - kTemporarySuffix.size());
    const bool is_any = name == kFolderJournal || name.ends_with(kFileSuffix);
    const bool is_ours = name == kFolderJournal || name == place.journal.filename();
    if (place.is_folder ? is_any : is_ours) found.push_back(entries->path());
  }
  if (error) return ErrnoError("cannot list '" + place.control.string() + "'", error.value());
  std::sort(found.begin(), found.end());
  return found;
}

Result<JournalState> ReadJournalState(const fs::path& checkpoint) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<JournalPlace> places, PlacesOf(checkpoint));
  JournalState worst = JournalState::kNone;
  for (const JournalPlace& place : places) {
    XORBIT_ASSIGN_OR_RETURN(const JournalState state, StateAt(place));
    worst = std::max(worst, state);
  }
  return worst;
}

}  // namespace xorbit

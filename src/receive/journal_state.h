// Where a checkpoint's journal lies, and what a journal left behind says about the checkpoint.
//
//   <folder>/.xorbit/lock                      held (flock) by whoever changes any checkpoint of the folder
//   <folder>/.xorbit/journal                   of the folder as a checkpoint
//   <folder>/.xorbit/<file name>.journal       of one file as a checkpoint
//   the same names with ".tmp" behind          a journal that is being written
//
// A journal gets its name only when all of it is on disk, and no weight is touched before that. Hence a ".tmp" means that
// nothing was touched, however torn it is; and a named journal that does not check out was damaged later, when anything may
// have happened.
#pragma once

#include <vector>

#include "base/file.h"

namespace xorbit {

enum class JournalState {
  kNone,
  kUnsealed,  // a change was being prepared: nothing was touched
  kSealed,    // a change was interrupted, or is being made right now: files may be half changed
  kDamaged,   // as kSealed, but the journal cannot help
};
std::string_view NameOf(JournalState state);

struct JournalPlace {
  fs::path folder;   // that holds the checkpoint's files
  fs::path control;  // <folder>/.xorbit
  fs::path journal;  // of this checkpoint
  bool is_folder = false;

  fs::path lock() const { return control / "lock"; }
  static fs::path TemporaryOf(fs::path journal) { return journal += ".tmp"; }
};

// kNotFound, or kRefused if there is neither a file nor a folder. Looks at nothing but the path.
Result<JournalPlace> FindJournalPlace(const fs::path& checkpoint);

// Journals that may concern the checkpoint, sealed ones or (`unsealed`) temporary ones, in the order of their names: for a
// folder all of its journals, for a file its own and the folder's.
Result<std::vector<fs::path>> FindJournals(const JournalPlace& place, bool unsealed);

// The worst that holds for any journal of the checkpoint, and of the files that it holds by symbolic link, where they really
// are. Takes no lock and writes nothing, so that it also serves read-only media; a change that starts or ends meanwhile may be
// seen or not.
Result<JournalState> ReadJournalState(const fs::path& checkpoint);

}  // namespace xorbit

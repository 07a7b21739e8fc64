#include "cli/ranks_processes.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

namespace xorbit {
namespace {

constexpr int kFailed = 1;

struct Process {
  pid_t pid = -1;
  uint32_t life = 0;
};

class Group {
 public:
  Group(Board* board, const std::function<Status(uint32_t index, uint32_t life)>& body) : board_(board), body_(body) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    for (const Process& process : processes_) {
      if (process.pid <= 0) continue;
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
  }

  Status Start(uint32_t index, uint32_t life) {
    processes_.resize(std::max<size_t>(processes_.size(), index + 1));
    const pid_t pid = ::fork();
    if (pid < 0) return IoError("cannot start a process of the benchmark: errno " + std::to_string(errno));
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const Status status = body_(index, life);
      if (!status.ok()) PutText(status.message(), board_->errors[index].data(), board_->errors[index].size());
      ::_exit(status.ok() ? 0 : kFailed);
    }
    processes_[index] = {pid, life};
    return {};
  }

  // Until all have ended well.
  Status Watch(uint32_t most_deaths) {
    while (std::ranges::any_of(processes_, [](const Process& process) { return process.pid > 0; })) {
      int state = 0;
      const pid_t ended = ::waitpid(-1, &state, 0);
      if (ended < 0 && errno == EINTR) continue;
      const auto process = std::ranges::find(processes_, ended, &Process::pid);
      if (process == processes_.end()) continue;
      process->pid = -1;
      const auto index = static_cast<uint32_t>(process - processes_.begin());
      if (WIFEXITED(state) && WEXITSTATUS(state) == 0) continue;
      const bool was_killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
      if (was_killed && most_deaths > 0) {
        --most_deaths;
        XORBIT_RETURN_IF_ERROR(Start(index, process->life + 1));
        continue;
      }
      board_->stopped = 1;
      const std::string name = "process " + std::to_string(index) + " of the benchmark";
      if (WIFSIGNALED(state)) return CorruptError(name + " died of signal " + std::to_string(WTERMSIG(state)));
      return CorruptError(name + ": " + board_->errors[index].data());
    }
    return {};
  }

 private:
  Board* board_;
  const std::function<Status(uint32_t index, uint32_t life)>& body_;
  std::vector<Process> processes_;
};

}  // namespace

Result<std::unique_ptr<SharedBoard>> SharedBoard::Make() {
  void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return IoError("no memory to share with the processes of the benchmark");
  // Its bytes are zero, which is the value of an atomic 0.
  return std::unique_ptr<SharedBoard>(new SharedBoard(static_cast<Board*>(memory)));  // tidy-allow: private
}

SharedBoard::~SharedBoard() { ::munmap(board_, sizeof(Board)); }

Status RunProcesses(Board* board, uint32_t count, uint32_t most_deaths,
                    const std::function<Status(uint32_t index, uint32_t life)>& body) {
  for (auto& arrived : board->arrived) arrived = 0;
  Group group(board, body);
  for (uint32_t index = 0; index < count; ++index) XORBIT_RETURN_IF_ERROR(group.Start(index, 0));
  return group.Watch(most_deaths);
}

}  // namespace xorbit

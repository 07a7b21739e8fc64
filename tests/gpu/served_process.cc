// Started by posix_spawn, for this process has a CUDA context and must not fork.
#include "served_process.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>

#include "base/file.h"

extern char** environ;

namespace xorbit {
namespace {

using Json = nlohmann::json;

HttpDeadline Patience() { return std::chrono::steady_clock::now() + std::chrono::seconds(120); }

Result<std::string> ReadLine(const UniqueFd& from) {
  std::string line;
  for (char c = 0; ::read(from.get(), &c, 1) == 1 && c != '\n';) line += c;
  if (line.empty()) return RefusedError("the server did not start");
  return line;
}

}  // namespace

Result<std::unique_ptr<ServedProcess>> ServedProcess::Start(const std::string& xorbit, std::vector<std::string> arguments) {
  auto server = std::make_unique<ServedProcess>();
  int out[2];
  if (::pipe(out) != 0) return ErrnoError("pipe", errno);
  const UniqueFd read_end(out[0]);
  arguments.insert(arguments.begin(), {xorbit, "serve"});
  arguments.insert(arguments.end(), {"--backend", "cuda", "--json"});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, out[0]);
  const int error = ::posix_spawn(&server->pid_, xorbit.c_str(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  if (error != 0) return ErrnoError("start " + xorbit, error);
  XORBIT_ASSIGN_OR_RETURN(const std::string line, ReadLine(read_end));
  const Json announced = Json::parse(line, nullptr, false);
  if (announced.is_discarded()) return RefusedError("the server did not start");
  server->endpoint_ = {"127.0.0.1", announced["port"]};
  return server;
}

ServedProcess::~ServedProcess() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Result<Json> ServedProcess::Post(const std::string& path, const Json& body, int status) const {
  HttpCall call;
  call.path = path;
  call.body = body.dump();
  XORBIT_ASSIGN_OR_RETURN(const HttpReply reply, CallHttp(endpoint_, call, Patience()));
  if (reply.status != status) return RefusedError(path + ": " + reply.body);
  return Json::parse(reply.body, nullptr, false);
}

Result<std::map<std::string, double>> ServedProcess::PhaseMs() const {
  HttpCall call;
  call.method = "GET";
  call.path = "/metrics";
  XORBIT_ASSIGN_OR_RETURN(const HttpReply reply, CallHttp(endpoint_, call, Patience()));
  const std::string name = "xorbit_pause_phase_seconds_total{phase=\"";
  std::map<std::string, double> phases;
  for (size_t at = reply.body.find(name); at != std::string::npos; at = reply.body.find(name, at)) {
    at += name.size();
    const size_t end = reply.body.find("\"} ", at);
    if (end == std::string::npos) return CorruptError("/metrics: " + reply.body);
    double seconds = 0;
    std::from_chars(reply.body.data() + end + 3, reply.body.data() + reply.body.size(), seconds);
    phases[reply.body.substr(at, end - at)] = seconds * 1e3;
  }
  return phases;
}

}  // namespace xorbit

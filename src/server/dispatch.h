// The way from a request to its handler, whatever the handlers are about.
#pragma once

#include <optional>
#include <span>

#include "server/reply.h"
#include "server/routes.h"

namespace xorbit {

// What comes before the handler, as a reply if it ends there: rate and token for a route's role; the version that a request
// wants, of what is applied, if that is known.
std::optional<HttpReply> RefuseRate(RateLimit& limit, size_t bucket);
std::optional<HttpReply> RefuseCaller(const AccessRules& access, RateLimit& limit, Role role, const HttpRequest& request);
std::optional<HttpReply> RefuseVersion(const ControlFields& fields, std::optional<uint64_t> applied);
// A slot for a call that may wait; without one, the reply that says so.
class CallSlot {
 public:
  explicit CallSlot(CallSlots& slots) : slots_(slots), is_taken_(slots.TryTake()) {}
  CallSlot(const CallSlot&) = delete;
  CallSlot& operator=(const CallSlot&) = delete;
  ~CallSlot() {
    if (is_taken_) slots_.Return();
  }
  std::optional<HttpReply> Refuse() const;

 private:
  CallSlots& slots_;
  bool is_taken_;
};
// The path is known, but not by this method; or not known at all.
HttpReply NoRouteReply(const HttpRequest& request, bool is_known);

// The whole way, by the table `routes`. A route without a handler ends in 501 once the caller may ask. Thread-safe if the
// session and its handlers are.
template <typename Session>
HttpReply DispatchTo(std::span<const RouteOf<Session>> routes, Session& session, const AccessRules& access, RateLimit& limit,
                     const HttpRequest& request) {
  const RouteOf<Session>* route = nullptr;
  bool is_known = false;
  for (const RouteOf<Session>& candidate : routes) {
    if (candidate.path != request.path) continue;
    is_known = true;
    if (candidate.method == request.method) route = &candidate;
  }
  if (route == nullptr) {
    if (auto refusal = RefuseRate(limit, RateLimit::kStrangers)) return *std::move(refusal);
    return NoRouteReply(request, is_known);
  }
  if (auto refusal = RefuseCaller(access, limit, route->role, request)) return *std::move(refusal);
  if (route->handler == nullptr) return FailureReply(501, route->summary);
  const Result<ControlFields> fields = ParseControlFields(request.body, request.query);
  if (!fields.ok()) return FailureReply(400, fields.status().message());
  if (auto refusal = RefuseVersion(*fields, session.version())) return *std::move(refusal);
  if (route->role != Role::kAdmin) return route->handler(session, *fields);
  const CallSlot slot(limit.slots());
  if (auto refusal = slot.Refuse()) return *std::move(refusal);
  return route->handler(session, *fields);
}

}  // namespace xorbit

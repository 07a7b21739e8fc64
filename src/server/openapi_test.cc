// The OpenAPI files have exactly the routes of the tables, with their roles and what an absent one says.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "server/disk_routes.h"
#include "server/routes.h"

namespace xorbit {
namespace {

template <typename Session>
void ExpectDescribed(const std::string& file, std::span<const RouteOf<Session>> routes) {
  const Buffer text = ReadWholeFile(fs::path(XORBIT_FORMATS) / file, 1 << 20).value();
  JsonShape method = JsonShape::Object({"summary", "x-xorbit-role"});
  method.fields.push_back({"responses", JsonShape::Each(JsonShape(), 20)});
  JsonShape shape;
  shape.fields.push_back({"paths", JsonShape::Each(JsonShape::Each(method, 4), 200)});
  const Json paths = ParseJson(AsText(text), shape, 20).value()["paths"];
  size_t described = 0;
  for (const auto& [path, methods] : paths.items()) described += methods.size();
  EXPECT_EQ(described, routes.size());
  constexpr std::string_view kRoles[] = {"open", "read", "admin"};
  for (const RouteOf<Session>& route : routes) {
    const std::string name = route.method == "GET" ? "get" : "post";
    ASSERT_TRUE(paths.contains(route.path) && paths[std::string(route.path)].contains(name)) << route.path;
    const Json& described_as = paths[std::string(route.path)][name];
    EXPECT_EQ(described_as["summary"], route.summary) << route.path;
    EXPECT_EQ(described_as["x-xorbit-role"], kRoles[static_cast<size_t>(route.role)]) << route.path;
    EXPECT_EQ(described_as["responses"].contains("501"), route.handler == nullptr) << route.path;
  }
}

TEST(OpenApi, DescribesTheRoutes) { ExpectDescribed("openapi.json", AllRoutes()); }
TEST(OpenApi, DescribesTheRoutesOfADisk) { ExpectDescribed("openapi-disk.json", AllDiskRoutes()); }

}  // namespace
}  // namespace xorbit

#include "arch/json_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::json_reader_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using testing_support::refusal;

JsonDocument doc(const std::string& text) { return JsonDocument::parse(text, "f.json"); }

TEST(JsonReader, ReadsWhatHuggingFaceWrites) {
  const JsonDocument d =
      doc("\xEF\xBB\xBF{\"a\": NaN, \"b\": [Infinity, -Infinity, -1], \"c\": \"NaN\", \"d\": \"\\\"NaN\"}");
  EXPECT_FALSE(d.root().has("a"));  // null counts as absent
  const auto b = d.root().at("b").elements();
  ASSERT_EQ(b.size(), 3U);
  EXPECT_TRUE(b[0].is_null());
  EXPECT_TRUE(b[1].is_null());
  EXPECT_EQ(b[2].as_integer(), -1);
  EXPECT_EQ(d.root().at("c").as_string(), "NaN");  // inside strings nothing changes
  EXPECT_EQ(d.root().at("d").as_string(), "\"NaN");
}

TEST(JsonReader, RefusesAbsurdNesting) {
  const std::string deep = std::string(201, '[') + std::string(201, ']');
  EXPECT_THAT(refusal([&] { doc(deep); }), HasSubstr("nested deeper than 200"));
  EXPECT_NO_THROW(doc(std::string(200, '[') + std::string(200, ']')));
  EXPECT_NE(refusal([] { doc(std::string(1'000'000, '[')); }), "(accepted)");
}

/// The parser would take it for the end of the text, and what follows for nothing.
TEST(JsonReader, RefusesBytesOfZero) {
  EXPECT_EQ(refusal([] { doc(std::string("40\0}", 4)); }), "f.json: not JSON: a zero byte at byte 3");
  EXPECT_EQ(refusal([] { doc(std::string("{\"a\": 1}\0", 9)); }), "f.json: not JSON: a zero byte at byte 9");
  EXPECT_EQ(refusal([] { doc(std::string("{\"a\0\": 1}", 10)); }), "f.json: not JSON: a zero byte at byte 4");
}

TEST(JsonReader, SyntaxErrorsHavePlaceLineAndColumn) {
  EXPECT_THAT(refusal([] { doc("{\n  \"a\": 1,\n  \"b\" 2\n}"); }),
              AllOf(StartsWith("f.json: not JSON: "), HasSubstr("line 3"), HasSubstr("column")));
  EXPECT_EQ(refusal([] { doc(""); }), "f.json: not JSON: the file is empty");
  EXPECT_EQ(refusal([] { doc("\xEF\xBB\xBF\r\n"); }), "f.json: not JSON: the file is empty");
  EXPECT_THAT(refusal([] { doc("{\"a\": \"\xff\"}"); }), StartsWith("f.json: not JSON"));
}

TEST(JsonReader, MessagesNameThePathAndWhatWasExpected) {
  const JsonDocument d = doc(R"({"memory": {"bandwidth": 4.8, "size": "141 furlongs"}, "n": 1.5, "big": 1e300})");
  EXPECT_EQ(refusal([&] { d.root().at("memory").at("bandwidth").as_bandwidth(); }),
            "f.json: /memory/bandwidth: expected a bandwidth with its unit such as \"4.8 TB/s\", found 4.8");
  EXPECT_THAT(refusal([&] { d.root().at("memory").at("size").as_bytes(); }),
              StartsWith("f.json: /memory/size: expected a size such as 141 GiB, found '141 furlongs'"));
  EXPECT_THAT(refusal([&] { d.root().at("memory").at("bandwith"); }), HasSubstr("did you mean 'bandwidth'?"));
  EXPECT_THAT(refusal([&] { d.root().at("n").as_integer(); }), HasSubstr("/n: expected a whole number, found 1.5"));
  EXPECT_THAT(refusal([&] { d.root().at("big").as_integer(); }), HasSubstr("whole number"));
  EXPECT_EQ(refusal([&] { d.root().at("n").fail("expected 1"); }), "f.json: /n: expected 1, found 1.5");
  EXPECT_EQ(refusal([&] { d.root().at("n").fail("is spare"); }), "f.json: /n: is spare");
  EXPECT_EQ(refusal([&] { d.root().at("memory").fail("expected a list"); }), "f.json: /memory: expected a list");
  EXPECT_THAT(refusal([&] { d.root().at("n").as_string(); }), HasSubstr("expected a string"));
  EXPECT_THAT(refusal([&] { d.root().at("n").as_bool(); }), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal([&] {
                d.root().at("memory").refuse_unknown_keys({"bandwidth", "sise"});
              }),
              AllOf(StartsWith("f.json: /memory/size: unknown key"), HasSubstr("did you mean 'sise'?")));
}

/// RFC 6901: a key with a slash or a tilde is one step of a path, not two.
TEST(JsonReader, PathsInMessagesAreJsonPointers) {
  const JsonDocument d = doc(R"({"a/b": {"c~d": "x"}, "a~1b": 1})");
  EXPECT_THAT(refusal([&] { d.root().at("a/b").at("c~d").as_number(); }), StartsWith("f.json: /a~1b/c~0d: expected"));
  EXPECT_THAT(refusal([&] { d.root().at("a~1b").as_string(); }), StartsWith("f.json: /a~01b: expected"));
}

/// Paths are worked out when they are asked for, of any depth; neighbours that are equal are told apart by where they stand.
TEST(JsonReader, PathsAreThoseThatWereWalked) {
  const JsonDocument d = doc(R"({"a/b": [1, [1, {"x": 1, "y": 1}]], "z": {"x": 1}})");
  EXPECT_EQ(d.root().path(), "");
  EXPECT_EQ(d.root().place(), "f.json: /");
  const JsonValue list = d.root().at("a/b");
  EXPECT_EQ(list.elements()[1].elements()[1].at("y").path(), "/a~1b/1/1/y");
  EXPECT_EQ(d.root().at("z").at("x").place(), "f.json: /z/x");
  EXPECT_TRUE(list.is_same_as(d.root().at("a/b")));
  EXPECT_FALSE(list.elements()[0].is_same_as(list.elements()[1]));
  std::string text = "7", path;
  for (int depth = 0; depth < 30; ++depth) text = R"({"k": [0, )" + text + "]}";
  const JsonDocument deep = doc(text);
  JsonValue value = deep.root();
  for (int depth = 0; depth < 30; ++depth) {
    value = value.at("k").elements()[1];
    path += "/k/1";
    EXPECT_EQ(value.path(), path);
  }
  EXPECT_EQ(value.as_integer(), 7);
}

TEST(JsonReader, MergesObjectsAndReplacesTheRest) {
  const JsonDocument base = doc(R"({"a": {"x": 1, "y": [1, 2]}, "b": 1})");
  const JsonDocument both =
      base.merged_with(JsonDocument::parse(R"({"a": {"y": [3], "z": null}, "b": {"c": 2}})", "p.json"));
  EXPECT_EQ(both.root().dump(), R"({"a":{"x":1,"y":[3],"z":null},"b":{"c":2}})");
  EXPECT_EQ(both.root().at("a").place(), "p.json: /a");
}

TEST(JsonReader, SetsDottedPaths) {
  JsonDocument d = doc(R"({"memory": {"bandwidth": "4.8 TB/s"}, "n": 1})");
  d.set("memory.bandwidth", "6TB/s");
  d.set("n", "160");
  EXPECT_EQ(d.root().dump(), R"({"memory":{"bandwidth":"6TB/s"},"n":160})");
  EXPECT_THAT(refusal([&] { d.set("memry.bandwidth", "1"); }), HasSubstr("did you mean 'memory'?"));
  EXPECT_THAT(refusal([&] { d.set("n.x", "1"); }), HasSubstr("has no members"));
}

RC_GTEST_PROP(JsonReader, AnyBytesAreReadOrRefusedInOneLine, (const std::string& text)) {
  try {
    (void)doc(text).root().dump();
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find("f.json: ") == 0U);
    const std::string what = e.what();
    RC_ASSERT(text.find('\n') != std::string::npos || what.find('\n') == std::string::npos);
  }
}

RC_GTEST_PROP(JsonReader, NumbersAndStringsComeBack, (std::int32_t number, bool flag)) {
  const JsonDocument d = doc("{\"n\": " + std::to_string(number) + ", \"f\": " + (flag ? "true" : "false") + "}");
  RC_ASSERT(d.root().at("n").as_integer() == number);
  RC_ASSERT(d.root().at("n").as_number() == static_cast<double>(number));
  RC_ASSERT(d.root().at("f").as_bool() == flag);
}

// L6 of the attack: of a key that was there twice the last one won in silence.
TEST(JsonDocument, RefusesAKeyThatIsThereTwice) {
  const auto refused = [](const std::string& text) { return refusal([&] { doc(text); }); };
  EXPECT_EQ(refused(R"({"a": 1, "b": 2, "a": 3})"), "f.json: /a: the key is there twice");
  EXPECT_EQ(refused(R"({"x": [{"a": 1}, {"y": {"k": 1, "k": 1}}]})"), "f.json: /x/1/y/k: the key is there twice");
  EXPECT_EQ(refused(R"({"a/b": {"a": 1, "\u0061": 2}})"), "f.json: /a~1b/a: the key is there twice");
  EXPECT_EQ(refused(R"({"a\"": 1, "a\"": 2})"), "f.json: /a\": the key is there twice");
  for (const char* fine : {R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]})", R"(["a", "a"])", "{}", "3", R"("a")",
                           R"({"a": "a", "b": "\"a\":", "c": ["{", "a", "}"]})"}) {
    EXPECT_EQ(refused(fine), "(accepted)");
  }
}

}  // namespace
}  // namespace plumbline::json_reader_test

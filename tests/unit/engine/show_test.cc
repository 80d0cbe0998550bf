// show_session on manifests that no kvrt writes: a store comes from anywhere.
#include "runtime/engine/describe/show.h"

#include <nlohmann/json.hpp>

#include "runtime/engine/snapshot/manifest.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using test::Chain;

class Show : public testing::Test {
 protected:
  Show() : chain_(test::token_run(40)) {
    auto store = test::open_store(tmp_.path() + "/store");
    EXPECT_OK(store.status());
    store_ = std::move(*store);
    manifest_.block_tokens = Chain::kBlock;
  }
  Result<std::string> show() {
    KVRT_TRY(save());
    return show_session(store_.get(), "", "ann");
  }
  Status save() {
    const auto bytes = encode_manifest(manifest_);
    test::SaveOptions o;
    o.overwrite = true;
    o.manifest.assign(bytes.begin(), bytes.end());
    return test::save_chain(store_.get(), "ann", chain_, o).take_status();
  }
  void expect_corrupt(const char* why) {
    auto shown = show();
    EXPECT_EQ(shown.status().code(), Code::kCorrupt);
    EXPECT_NE(shown.status().message().find(why), std::string::npos) << shown.status().message();
    EXPECT_NE(shown.status().message().find("ann"), std::string::npos) << shown.status().message();
  }

  test::TempDir tmp_;
  Chain chain_;
  std::unique_ptr<Store> store_;
  Manifest manifest_;
};

TEST_F(Show, SaysWhatWasSaved) {
  manifest_.messages = {{"{\"a\\\"\\\\\" :\n 1.50e3,\t\"b\": \" \\n \" }", 3, 7, true}, {"[]", 7, 40, false}};
  manifest_.grammar.kind = GrammarKind::kGbnf;
  manifest_.grammar.source = "root ::= \"\n\x1b\"";
  manifest_.grammar.begin = 5;
  manifest_.grammar.bound = true;
  manifest_.arguments.tools = "[ 1 ]";
  auto shown = show();
  ASSERT_OK(shown.status());
  EXPECT_EQ(shown->find('\n'), std::string::npos) << "one line";
  EXPECT_NE(shown->find("[{\"a\\\"\\\\\":1.50e3,\"b\":\" \\n \"}, []]"), std::string::npos) << "spelled as it was given: " << *shown;
  const auto json = nlohmann::json::parse(*shown);
  EXPECT_EQ(json["tokens"].get<std::vector<int32_t>>(), chain_.tokens);
  EXPECT_EQ(json["spans"],
            nlohmann::json::parse(R"([{"begin": 3, "end": 7, "generated": true}, {"begin": 7, "end": 40, "generated": false}])"));
  EXPECT_EQ(json["options"]["tools"], nlohmann::json({1}));
  EXPECT_EQ(json["options"]["grammar"]["source"], "root ::= \"\n\x1b\"");
  EXPECT_EQ(json["chunks"].size(), chain_.nodes.size());
  uint64_t end = 0;
  for (size_t i = 0; i < chain_.nodes.size(); ++i) {
    EXPECT_EQ(json["chunks"][i]["key"], chain_.nodes[i].key.hex());
    EXPECT_EQ(json["chunks"][i]["begin"], end);
    end += chain_.nodes[i].tokens.size();
    EXPECT_EQ(json["chunks"][i]["end"], end);
    EXPECT_GT(json["chunks"][i]["bytes"], 0);
    EXPECT_EQ(json["chunks"][i]["by_number"], nlohmann::json({{"0", json["chunks"][i]["bytes"]}}));
  }
}

TEST_F(Show, ChunksThatAreGoneHaveNoBytes) {
  ASSERT_OK(save());
  for (const std::string& file : test::segment_files(tmp_.path() + "/store")) std::filesystem::remove(file);
  EXPECT_EQ(test::readable_chunks(store_.get(), chain_), 0u);  // the store learns it
  auto shown = show_session(store_.get(), "", "ann");
  ASSERT_OK(shown.status());
  const auto json = nlohmann::json::parse(*shown);
  for (const auto& chunk : json["chunks"]) EXPECT_TRUE(chunk["bytes"] == 0 && chunk["by_number"].empty());
  EXPECT_TRUE(json["kv_formats"].empty());
  EXPECT_EQ(json["tokens"].size(), 40u);
}

TEST_F(Show, HasTheDeepestCall) {
  // As an answer may have it: arguments of 64 objects within one another.
  std::string arguments = "1";
  for (int i = 0; i < 64; ++i) arguments = "{\"a\":" + arguments + "}";
  const std::string message = R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":)" + arguments + "}}]}";
  manifest_.messages = {{message, 0, 1, true}};
  auto shown = show();
  ASSERT_OK(shown.status());
  EXPECT_EQ(nlohmann::json::parse(*shown)["messages"][0], nlohmann::json::parse(message));
}

TEST_F(Show, RefusesWhatIsNoManifest) {
  manifest_.messages = {{"{\"a\": ", 0, 1, false}};
  expect_corrupt("a message: not JSON");
  manifest_.messages = {{"\"\xff\"", 0, 1, false}};
  expect_corrupt("a message: not JSON");
  manifest_.messages = {{std::string(69, '[') + std::string(69, ']'), 0, 1, false}};
  expect_corrupt("deeper than 68");
  manifest_.messages = {{"[]", 0, 41, false}};
  expect_corrupt("outside the tokens");
  manifest_.messages.clear();
  manifest_.arguments.variables = "{}}";
  expect_corrupt("the variables: not JSON");
  manifest_.arguments.variables.clear();
  manifest_.pending = {1};  // one more than the catalog says
  expect_corrupt("hold 41 tokens");
  manifest_.pending = {-1};
  expect_corrupt("token out of range");
}

}  // namespace
}  // namespace kvrt

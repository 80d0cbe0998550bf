// kvrt::Session::resume_or_open on the real library.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kvrt.hpp"

namespace {

using kvrt::Event, kvrt::Model, kvrt::Runtime, kvrt::Session, kvrt::Store;

#define TINY KVRT_SOURCE_DIR "/tests/golden/tiny/"

class CppResume : public testing::Test {
 protected:
  CppResume() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvrt-cpp-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    store = Store::open(runtime, folder).or_throw();
  }
  ~CppResume() override { std::filesystem::remove_all(folder); }
  static std::vector<int32_t> tokens(const Session& s) {
    std::vector<int32_t> out;
    s.tokens(out).or_throw();
    return out;
  }
  std::string folder;
  Runtime runtime = Runtime::open().or_throw();
  Model model = Model::open(runtime, TINY "llama_gqa_f32.gguf").or_throw();
  Store store;
};

TEST_F(CppResume, OpensAndThenResumes) {
  const auto o = kvrt::init<kvrt_session_options>();
  auto report = kvrt::init<kvrt_report>();
  Session first = Session::resume_or_open(model, store, "ann", o, &report).or_throw();
  EXPECT_TRUE(first.info()->revision == 0 && report.prompt_tokens == 0);
  ASSERT_TRUE(first.append(std::vector<int32_t>(40, 9)).ok());
  ASSERT_TRUE(first.prefill().ok());
  ASSERT_TRUE(first.suspend("ann").ok());  // it has the store of the call
  int events = 0;
  Session second = Session::resume_or_open(model, store, "ann", o, &report, [&](const Event&) { ++events; }).or_throw();
  EXPECT_TRUE(second.info()->revision == 1 && report.prompt_tokens == 40 && events > 0);
  EXPECT_EQ(tokens(second), tokens(first));
}

// The first conversation of a name has no save that would name it.
TEST_F(CppResume, AutosaveSavesTheFirstConversation) {
  auto o = kvrt::init<kvrt_session_options>();
  o.autosave_turn = 1;
  auto autosaved = [&](const char* expected) {
    Session s = Session::resume_or_open(model, store, "ann", o).or_throw();
    s.append(std::vector<int32_t>{5, 6, 7, 8}).or_throw();
    s.close();
    EXPECT_EQ(store.stat(expected)->tokens, 4u) << expected;
  };
  autosaved("ann");
  ASSERT_TRUE(store.remove("ann").ok());
  kvrt::assign(o.autosave_name, o.autosave_name_size, "bob");
  autosaved("bob");
  EXPECT_EQ(store.stat("ann").status(), KVRT_NOT_FOUND);
}

TEST_F(CppResume, OpensNothingAtOtherFailures) {
  Session s = Session::resume_or_open(model, store, "ann").or_throw();
  ASSERT_TRUE(s.append(std::vector<int32_t>{5, 6, 7, 8}).ok());
  ASSERT_TRUE(s.suspend("ann").ok());
  const Model other = Model::open(runtime, TINY "qwen2_gqa_f32.gguf").or_throw();
  const auto refused = Session::resume_or_open(other, store, "ann");
  EXPECT_EQ(refused.status(), KVRT_INCOMPATIBLE);
  EXPECT_TRUE(!*refused && other.info()->sessions == 0);
  EXPECT_EQ(Session::resume_or_open(model, Store(), "ann").status(), KVRT_INVALID);
  EXPECT_EQ(Session::resume_or_open(model, store, "").status(), KVRT_INVALID);
}

}  // namespace

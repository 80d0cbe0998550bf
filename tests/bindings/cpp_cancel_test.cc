// kvrt::Cancel on the real library.
#include <gtest/gtest.h>

#include <vector>

#include "kvrt.hpp"

namespace {

using kvrt::Event, kvrt::Model, kvrt::Runtime, kvrt::Session;

TEST(CppCancel, EndsWhatWasBegunWithIt) {
  const Runtime runtime = Runtime::open().or_throw();
  const Model model = Model::open(runtime, KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf").or_throw();
  Session s = Session::open(model).or_throw(), unread = Session::open(model).or_throw();
  const std::vector<int32_t> prompt = {5, 6, 7, 8};
  s.append(prompt).or_throw();
  unread.append(prompt).or_throw();
  kvrt::Cancel cancel = kvrt::Cancel::open().or_throw();
  auto o = kvrt::init<kvrt_generate_options>();
  o.ignore_eos = 1;
  o.cancel = cancel.get();
  ASSERT_TRUE(unread.begin(o).ok());
  int tokens = 0;
  const auto fire = [&](const Event& e) {
    if (e.type == KVRT_EVENT_TOKEN && ++tokens == 3) cancel.fire();
  };
  EXPECT_EQ(s.generate(o, fire).status(), KVRT_CANCELLED);
  EXPECT_TRUE(cancel.fired() && tokens >= 3);
  kvrt::Status end;
  for (const Event& e : unread.events(end)) {
    EXPECT_TRUE(e.type != KVRT_EVENT_DONE || e.reason == KVRT_REASON_CANCELLED);
  }
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(s.generate(o).status(), KVRT_CANCELLED);
  o.cancel = nullptr;
  o.max_tokens = 3;
  cancel.reset();
  EXPECT_TRUE(s.generate(o).ok() && unread.generate(o).ok() && !cancel.fired());
}

}  // namespace

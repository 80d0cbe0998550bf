// SessionOptions: what a caller says of a session that it opens or resumes.
#pragma once

#include <memory>
#include <string>

#include "runtime/engine/session/session.h"

namespace kvrt {

struct SessionOptions {
  std::shared_ptr<Store> store;
  std::string domain;
  bool share = true;
  TemplateArguments arguments;  // resume: "" keeps what was saved
  std::shared_ptr<Wake> wake;   // null: none
  AutosavePolicy autosave;
  bool drafts = false;          // see Session
  bool accept_foreign = false;  // resume: take another arithmetic's KV as it is
};

}  // namespace kvrt

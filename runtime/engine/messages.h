// Messages of a conversation as JSON.
#pragma once

#include <string>
#include <string_view>

namespace kvrt {

// {"role":"assistant","content":...} for valid UTF-8.
std::string assistant_message(std::string_view content);

}  // namespace kvrt

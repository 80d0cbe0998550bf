// NFC, Unicode's composed form, as the normalizer of Hugging Face's tokenizers makes it: of the version of Unicode that its tables have.
#pragma once

#include <string>
#include <string_view>

namespace kvrt {

// The text, valid UTF-8, in NFC: a view of `text` where it is that already, else of `scratch`. Linear, also in marks that no letter ends.
std::string_view to_nfc(std::string_view text, std::string* scratch);

}  // namespace kvrt

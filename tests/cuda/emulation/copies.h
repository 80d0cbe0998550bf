// Copies of the running block's threads to shared memory that are under way (copy_async: device_functions.h).
#pragma once

namespace kvrt::emulation {

void drop_copies();  // a block begins: copies that none waited for never come

}  // namespace kvrt::emulation

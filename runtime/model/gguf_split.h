// A model that is split over several files, as gguf-split and the converters write it: NAME-00001-of-00003.gguf and so on. The first has the
// metadata; each has split.no (from 0), split.count and a directory of its own tensors.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/model/gguf_parse.h"

namespace kvrt {

// 1 where the file is not split. A count above kGgufFilesMax: LIMIT.
Result<uint32_t> split_count(const GgufDirectory& directory, const std::string& name);

// The place of file `no` of a split model, `first` being that of its first. INVALID where `first` is not named so.
Result<std::string> split_path(const std::string& first, uint32_t no, uint32_t count);

// CORRUPT where the directory is not that of file `no` of `count`.
Status check_split(const GgufDirectory& directory, uint32_t no, uint32_t count, const std::string& name);

// CORRUPT where a later file says something else than the first of what both say.
Status check_same_model(const GgufDirectory& part, const GgufDirectory& first, const std::string& name);

// Adds a later file's tensors. CORRUPT where one has the name of another.
Status add_split(GgufDirectory part, const std::string& name, GgufDirectory* all);

// CORRUPT where the files together have not as many tensors as the first says.
Status check_split_tensors(const GgufDirectory& all, const std::string& name);

}  // namespace kvrt

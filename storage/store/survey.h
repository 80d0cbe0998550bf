// Looks at a directory before it is opened as a store: it is ours, empty, or to be refused. Writes nothing.
#pragma once

#include <string>

#include "runtime/base/env.h"
#include "storage/catalog/catalog.h"
#include "storage/catalog/catalog_file.h"
#include "storage/store/format_file.h"

namespace kvrt {

struct Survey {
  bool empty = true;  // but for files that an interrupted creation leaves
  FormatFile format;
  CatalogProbe catalog;
};

// An error: the directory is no store, is damaged, or is a later kvrt's.
Result<Survey> survey(Env* env, const std::string& root);

// The single checks of survey, for a repair, which goes on where an open fails.
Result<bool> has_segments(Env* env, const std::string& root);  // a folder under segs/ has a file, or cannot be listed
Status check_format(const FormatFile& format, const CatalogProbe& catalog, const std::string& root);
Status check_schema_known(const CatalogProbe& catalog, const std::string& path);
Status foreign_database(const CatalogProbe& catalog, const std::string& path);

}  // namespace kvrt

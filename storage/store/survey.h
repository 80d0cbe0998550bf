// What a directory holds before it is opened as a store: ours, empty, or to be refused. Nothing is written here.
#pragma once

#include <string>

#include "runtime/base/env.h"
#include "storage/catalog/catalog.h"
#include "storage/catalog/catalog_file.h"
#include "storage/store/format_file.h"

namespace kvrt {

struct Survey {
  bool empty = true;  // nothing in it but what an interrupted creation leaves
  FormatFile format;
  CatalogProbe catalog;
};

// An error: the directory is no store, is damaged, or is a later kvrt's.
Result<Survey> survey(Env* env, const std::string& root);

// The questions that survey asks, for a repair, which goes on where an open ends.
Result<bool> has_segments(Env* env, const std::string& root);  // any segment file lies under segs/
Status check_format(const FormatFile& format, const CatalogProbe& catalog, const std::string& root);
Status check_schema_known(const CatalogProbe& catalog, const std::string& path);
Status foreign_database(const CatalogProbe& catalog, const std::string& path);

}  // namespace kvrt

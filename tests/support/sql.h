// SQL on a catalog beside the store that has it: a test reads and breaks it so.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>

namespace kvrt::test {

// The rows of a query, columns with a bar between them.
inline std::string sql_rows(const std::string& catalog, const std::string& text) {
  sqlite3* db = nullptr;
  std::string rows;
  EXPECT_EQ(sqlite3_open_v2(catalog.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK) << catalog;
  char* message = nullptr;
  const auto add = [](void* out, int columns, char** values, char**) {
    for (int i = 0; i < columns; i++) *static_cast<std::string*>(out) += std::string(values[i] != nullptr ? values[i] : "NULL") + "|";
    *static_cast<std::string*>(out) += "\n";
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db, text.c_str(), add, &rows, &message), SQLITE_OK) << message;
  sqlite3_free(message);
  sqlite3_close(db);
  return rows;
}

}  // namespace kvrt::test

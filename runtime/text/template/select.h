// Jinja's attribute getters: they give the part of an item that map, select, sort and others work on.
#pragma once

#include "runtime/text/template/render.h"

namespace kvrt::jinja {

// `path` of an item: "a.b.0" or an index.
Value member(Renderer& r, uint32_t at, Value item, Value path, const Value* otherwise = nullptr);
// A sort key without regard to case.
Value fold_case(Renderer& r, uint32_t at, Value v);

}  // namespace kvrt::jinja

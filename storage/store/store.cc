#include "storage/store/store.h"

#include "storage/store/store_impl.h"

namespace kvrt {

Result<std::unique_ptr<Store>> Store::open(Env* env, Log* log, const std::string& path, const StoreOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return error(Code::kInvalid, Detail::kNone, "an empty path, or a zero byte in it");
  KVRT_ASSIGN(StoreDirectory dir, open_directory(env, path, options));
  auto store = std::make_unique<StoreImpl>(env, log, std::move(dir), options);
  KVRT_TRY(store->start());
  return std::unique_ptr<Store>(std::move(store));
}

Status StoreImpl::start() {
  KVRT_TRY(writer_.open());
  {
    Lock lock(writer_.mutex);
    open_names_.set_salt(writer_.catalog.db.salt());
  }
  sealer_.seal_left();
  return {};
}

StoreImpl::~StoreImpl() {
  try {
    if (!store_.dir.read_only) saves_.close();
    writer_.close(collector_.litter() || store_.open.litter());
  } catch (...) {  // no memory: the next open does the rest
  }
}

bool StoreImpl::cached_model_id(const ModelFile& file, Hash256* out) {
  Lock lock(reader_.mutex);
  return reader_.catalog.models.find(file, out);
}

void StoreImpl::cache_model_id(const ModelFile& file, const Hash256& id) {
  Lock lock(writer_.mutex);
  const Impatient at_once = writer_.catalog.db.impatient();
  if (!writer_.check_writable().is_ok()) return;
  Status cached = writer_.catalog.models.put(file, id);
  if (!cached.is_ok()) logf(store_.log, LogLevel::kDebug, "store: model id not cached: %s", cached.message().c_str());
}

}  // namespace kvrt

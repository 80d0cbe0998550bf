// The way to libkvrt_cuda: dlopen, when CUDA is first asked for, so that libkvrt loads where there is no driver. It stays loaded: its
// kernels and the driver's threads outlive every backend.
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

#include "runtime/compute/backend.h"

namespace kvrt {

namespace {

constexpr char kFile[] = "libkvrt_cuda.so", kSymbol[] = "kvrt_cuda_plugin";

// The path of the library that holds `address`; "" where the dynamic linker does not know it.
std::string path_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

Result<void*> load(const std::string& library) {
  std::string where, path = library;
  if (library.empty()) {
    const std::string own = path_of(reinterpret_cast<const void*>(&load));
    const std::string dir = own.substr(0, own.rfind('/') + 1), beside = dir + kFile;
    const bool found = !dir.empty() && access(beside.c_str(), F_OK) == 0;
    path = found ? beside : kFile;
    if (!found) where = "it is not beside libkvrt (in " + dir + "), and from the dynamic linker: ";
  }
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* why = dlerror();
  return error(Code::kUnsupported, Detail::kNone, "CUDA needs %s, which cannot be loaded: %s%s", path.c_str(), where.c_str(),
               why ? why : "no reason given");
}

// The table of libkvrt_cuda as the options name it, sure to be of this build.
Result<const CudaPlugin*> load_plugin(const std::string& library) {
  KVRT_ASSIGN(void* handle, load(library));
  const auto* plugin = static_cast<const CudaPlugin*>(dlsym(handle, kSymbol));
  const char* version = plugin && plugin->version ? plugin->version : "none";
  if (plugin && std::strcmp(version, KVRT_CUDA_PLUGIN_VERSION) == 0) return plugin;
  const char* name = library.empty() ? kFile : library.c_str();
  Status status = plugin
                      ? error(Code::kIncompatible, Detail::kNone, "%s has version %s, expected %s: install it and libkvrt from one build",
                              path_of(plugin).c_str(), version, KVRT_CUDA_PLUGIN_VERSION)
                      : error(Code::kIncompatible, Detail::kNone, "%s is not libkvrt_cuda: it has no %s", name, kSymbol);
  dlclose(handle);
  return status;
}

}  // namespace

Result<std::unique_ptr<Backend>> open_cuda(const CudaOptions& options, Log* log) {
  KVRT_ASSIGN(const CudaPlugin* plugin, load_plugin(options.library));
  Status status;
  std::unique_ptr<Backend> backend(plugin->open(options, log, &status));
  if (backend) return backend;
  if (status.is_ok()) status = error(Code::kInternal, Detail::kNone, "%s gave no device and no reason", path_of(plugin).c_str());
  return status;
}

Result<std::string> describe_cuda(const CudaOptions& options) {
  KVRT_ASSIGN(const CudaPlugin* plugin, load_plugin(options.library));
  std::string text;
  KVRT_TRY(plugin->describe(&text));
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text + path_of(plugin);
}

}  // namespace kvrt

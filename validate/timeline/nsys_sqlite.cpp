// Nsight Systems' `nsys export --type sqlite`: tables CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, StringIds and
// TARGET_INFO_GPU, times in nanoseconds, names as numbers of StringIds (Nsight Systems' exported data, "SQLite Export
// Schema Reference"). The library is the system's, loaded when such a file is read: nothing else needs it.
#include <dlfcn.h>

#include <cstring>
#include <functional>

#include "arch/error.hpp"
#include "arch/printable.hpp"
#include "validate/timeline/timeline.hpp"

namespace plumbline {
namespace {

/// The part of sqlite3.h that is used; its C interface has not changed since 2004.
struct Sqlite {
  int (*open)(const char*, void**, int, const char*) = nullptr;
  int (*close)(void*) = nullptr;
  int (*prepare)(void*, const char*, int, void**, const char**) = nullptr;
  int (*step)(void*) = nullptr;
  int (*finalize)(void*) = nullptr;
  long long (*whole)(void*, int) = nullptr;
  const unsigned char* (*text)(void*, int) = nullptr;
  const char* (*message)(void*) = nullptr;
};
constexpr int kReadOnly = 1, kRow = 100, kDone = 101;  // SQLITE_OPEN_READONLY, SQLITE_ROW, SQLITE_DONE

template <class F>
void load(void* library, const char* symbol, F& into) {
  into = reinterpret_cast<F>(dlsym(library, symbol));
  if (into == nullptr) throw BadInput(std::string("libsqlite3.so.0: expected ") + symbol + ", found nothing");
}

Sqlite sqlite(const std::string& file) {
  void* library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw BadInput(file + ": exports of Nsight Systems need libsqlite3.so.0 (Debian: libsqlite3-0), which is not here");
  }
  Sqlite out;
  load(library, "sqlite3_open_v2", out.open);
  load(library, "sqlite3_close", out.close);
  load(library, "sqlite3_prepare_v2", out.prepare);
  load(library, "sqlite3_step", out.step);
  load(library, "sqlite3_finalize", out.finalize);
  load(library, "sqlite3_column_int64", out.whole);
  load(library, "sqlite3_column_text", out.text);
  load(library, "sqlite3_errmsg", out.message);
  return out;
}

/// A row of an answer.
class Row {
 public:
  Row(const Sqlite& library, void* statement) : library_(library), statement_(statement) {}
  std::int64_t whole(int column) const { return library_.whole(statement_, column); }
  std::string text(int column) const {
    const unsigned char* value = library_.text(statement_, column);
    return value == nullptr ? "" : printable(reinterpret_cast<const char*>(value));
  }

 private:
  const Sqlite& library_;
  void* statement_;
};

class Database {
 public:
  explicit Database(const std::string& file) : library_(sqlite(file)), file_(file) {
    if (library_.open(file.c_str(), &handle_, kReadOnly, nullptr) != 0) fail();
  }
  ~Database() { library_.close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  bool has(const std::string& table) const {
    bool found = false;
    each("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name = '" + table + "'",
         [&](const Row&) { found = true; });
    return found;
  }

  void each(const std::string& query, const std::function<void(const Row&)>& take) const {
    void* statement = nullptr;
    if (library_.prepare(handle_, query.c_str(), -1, &statement, nullptr) != 0) fail();
    int state = 0;
    while ((state = library_.step(statement)) == kRow) take(Row(library_, statement));
    library_.finalize(statement);
    if (state != kDone) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw BadInput(file_ + ": expected an export of Nsight Systems: " + printable(library_.message(handle_)));
  }
  Sqlite library_;
  std::string file_;
  void* handle_ = nullptr;
};

void read_kernels(const Database& data, Timeline& out) {
  data.each(
      "SELECT k.start, k.end, k.deviceId, k.streamId, k.gridX * k.gridY * k.gridZ, k.blockX * k.blockY * k.blockZ, "
      "s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.demangledName ORDER BY k.start",
      [&](const Row& row) {
        TimelineKernel kernel;
        kernel.start = static_cast<double>(row.whole(0)) * units::ns;
        kernel.duration = static_cast<double>(row.whole(1) - row.whole(0)) * units::ns;
        kernel.device = row.whole(2);
        kernel.stream = row.whole(3);
        kernel.ctas = row.whole(4);
        kernel.threads = row.whole(5);
        kernel.kernel = row.text(6);
        out.kernels.push_back(std::move(kernel));
      });
}

void read_copies(const Database& data, const std::string& table, const char* what, Timeline& out) {
  if (!data.has(table)) return;  // tables without rows are not written
  data.each("SELECT start, end, deviceId, streamId FROM " + table, [&](const Row& row) {
    TimelineKernel kernel;
    kernel.start = static_cast<double>(row.whole(0)) * units::ns;
    kernel.duration = static_cast<double>(row.whole(1) - row.whole(0)) * units::ns;
    kernel.device = row.whole(2);
    kernel.stream = row.whole(3);
    kernel.kernel = what;
    kernel.copy = true;
    out.kernels.push_back(std::move(kernel));
  });
}

}  // namespace

Timeline read_nsys_sqlite(const std::string& file) {
  const Database data(file);
  if (!data.has("CUPTI_ACTIVITY_KIND_KERNEL")) {
    throw BadInput(file + ": expected a table CUPTI_ACTIVITY_KIND_KERNEL (nsys profile --trace cuda), found none");
  }
  Timeline out;
  out.source = TimelineSource::nsys;
  out.file = file;
  read_kernels(data, out);
  read_copies(data, "CUPTI_ACTIVITY_KIND_MEMCPY", "Memcpy", out);
  read_copies(data, "CUPTI_ACTIVITY_KIND_MEMSET", "Memset", out);
  if (data.has("TARGET_INFO_GPU")) {
    data.each("SELECT name, computeMajor, computeMinor, smCount, totalMemory FROM TARGET_INFO_GPU ORDER BY id LIMIT 1",
              [&](const Row& row) {
                out.card.name = row.text(0);
                out.card.compute_capability = std::to_string(row.whole(1)) + "." + std::to_string(row.whole(2));
                out.card.sms = row.whole(3);
                out.card.memory = static_cast<double>(row.whole(4)) * units::B;
              });
  }
  return out;
}

}  // namespace plumbline

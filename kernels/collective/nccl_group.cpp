#include "kernels/collective/nccl_group.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "arch/error.hpp"
#include "kernels/common/shared_library.hpp"

namespace plumbline {
namespace {

// What we use of nccl.h, whose numbers have been the same since NCCL 2.10: building needs no NCCL.
using Comm = void*;
constexpr int kSuccess = 0, kSum = 0, kFloat32 = 7, kBfloat16 = 9;

template <class F>
void bind(void* library, F*& function, const char* name) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (function == nullptr) throw DeviceError(std::string("libnccl: no ") + name);
}

}  // namespace

struct NcclGroup::Library {
  int (*get_version)(int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*init_all)(Comm*, int, const int*) = nullptr;
  int (*destroy)(Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, void*) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, Comm, void*) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, Comm, void*) = nullptr;
  int (*send)(const void*, std::size_t, int, int, Comm, void*) = nullptr;
  int (*receive)(void*, std::size_t, int, int, Comm, void*) = nullptr;
  std::vector<Comm> comms;
  std::string version;

  void load(const std::string& path) {
    // The variable is read when the library starts.
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    const std::vector<std::string> places =
        path.empty() ? library_candidates("libnccl.so.2", "PLUMBLINE_NCCL") : std::vector<std::string>{path};
    void* library = nullptr;
    for (const std::string& place : places) {
      if (library == nullptr) library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) {
      throw DeviceError((path.empty() ? std::string("no libnccl.so.2 found; name it by --nccl") : path) + ": " +
                        dlerror());
    }
    bind(library, get_version, "ncclGetVersion");
    bind(library, error_string, "ncclGetErrorString");
    bind(library, init_all, "ncclCommInitAll");
    bind(library, destroy, "ncclCommDestroy");
    bind(library, group_start, "ncclGroupStart");
    bind(library, group_end, "ncclGroupEnd");
    bind(library, all_reduce, "ncclAllReduce");
    bind(library, all_gather, "ncclAllGather");
    bind(library, reduce_scatter, "ncclReduceScatter");
    bind(library, send, "ncclSend");
    bind(library, receive, "ncclRecv");
  }

  void check(int status, const char* call) const {
    if (status != kSuccess) throw DeviceError(std::string(call) + ": " + error_string(status));
  }
};

NcclGroup::NcclGroup(const std::string& library, const std::vector<int>& devices) : library_(new Library) {
  Library& nccl = *library_;
  nccl.load(library);
  int version = 0;
  nccl.check(nccl.get_version(&version), "ncclGetVersion");
  nccl.version =
      std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  nccl.comms.resize(devices.size());
  nccl.check(nccl.init_all(nccl.comms.data(), static_cast<int>(devices.size()), devices.data()), "ncclCommInitAll");
}

NcclGroup::~NcclGroup() {
  for (Comm comm : library_->comms) {
    if (comm != nullptr) library_->destroy(comm);
  }
}

const std::string& NcclGroup::version() const { return library_->version; }

void NcclGroup::enqueue(const Collective& shape, const PeerBuffers& buffers,
                        const std::vector<StreamHandle>& streams) const {
  const Library& nccl = *library_;
  const auto n = static_cast<std::size_t>(peer_elements(shape));
  const int type = shape.dtype == DType::bf16 ? kBfloat16 : kFloat32;
  const std::size_t part = n * (shape.dtype == DType::bf16 ? 2 : 4);
  nccl.check(nccl.group_start(), "ncclGroupStart");
  for (std::size_t r = 0; r < nccl.comms.size(); ++r) {
    const auto in = static_cast<const char*>(buffers.in[r]);
    const auto out = static_cast<char*>(buffers.out[r]);
    Comm comm = nccl.comms[r];
    switch (shape.kind) {
      case CollectiveKind::all_reduce:
        nccl.check(nccl.all_reduce(in, out, n, type, kSum, comm, streams[r]), "ncclAllReduce");
        break;
      case CollectiveKind::all_gather:
        nccl.check(nccl.all_gather(in, out, n, type, comm, streams[r]), "ncclAllGather");
        break;
      case CollectiveKind::reduce_scatter:
        nccl.check(nccl.reduce_scatter(in, out, n, type, kSum, comm, streams[r]), "ncclReduceScatter");
        break;
      case CollectiveKind::all_to_all:
        for (std::size_t peer = 0; peer < nccl.comms.size(); ++peer) {
          nccl.check(nccl.send(in + peer * part, n, type, static_cast<int>(peer), comm, streams[r]), "ncclSend");
          nccl.check(nccl.receive(out + peer * part, n, type, static_cast<int>(peer), comm, streams[r]), "ncclRecv");
        }
        break;
      case CollectiveKind::broadcast: break;  // peer_elements() refuses it
    }
  }
  nccl.check(nccl.group_end(), "ncclGroupEnd");
}

}  // namespace plumbline

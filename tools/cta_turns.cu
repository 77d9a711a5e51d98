// What CTAs of a few instructions take, by their number and size; and a merge that walks partial results one after the other.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(x)                                                      \
  do {                                                                \
    const cudaError_t e = (x);                                        \
    if (e != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));    \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)

// two loads from L2 that say that nothing is to be done
__global__ void brief(const int* counts, float* out, int heads) {
  const int sequence = static_cast<int>(blockIdx.x) / heads;
  const int parts = counts[sequence + 1] - counts[sequence];
  if (parts == 1) return;
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<float>(parts);
}

__global__ void empty(int) {}

// 16 bytes a thread in, 8 out
__global__ void narrow(const float4* in, float2* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float4 v = in[i];
  out[i] = make_float2(v.x + v.y, v.z + v.w);
}

__global__ void merge(const int* counts, const float4* parts_of, float2* out, int heads) {
  const int sequence = static_cast<int>(blockIdx.x) / heads, head = static_cast<int>(blockIdx.x) % heads;
  const int begin = counts[sequence], parts = counts[sequence + 1] - begin;
  if (parts == 1) return;
  const float4* p = parts_of + (static_cast<size_t>(begin) * heads + head) * blockDim.x + threadIdx.x;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = 0; i < parts; ++i) {
    const float4 v = *p;
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    p += static_cast<size_t>(heads) * blockDim.x;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = make_float2(sum.x + sum.y, sum.z + sum.w);
}

template <class Launch>
double microseconds(const Launch& launch) {
  constexpr int kLaunches = 20;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kLaunches; ++i) launch(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t a, b;
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  float least = 1e30f;
  for (int i = 0; i < 5; ++i) {
    CHECK(cudaEventRecord(a, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaEventRecord(b, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    if (i > 0 && ms < least) least = ms;
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  return 1e3 * least / kLaunches;
}

int main() {
  int *ones = nullptr, *splits = nullptr;
  float4* in = nullptr;
  float2* out = nullptr;
  CHECK(cudaMalloc(&ones, 4 * 4200));
  CHECK(cudaMalloc(&splits, 4 * 4200));
  CHECK(cudaMalloc(&in, 1u << 30));
  CHECK(cudaMemset(in, 0, 1u << 30));
  CHECK(cudaMalloc(&out, 1u << 30));
  std::vector<int> host(4200);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i);
  CHECK(cudaMemcpy(ones, host.data(), 4 * 4200, cudaMemcpyHostToDevice));
  std::printf("kernel,threads,ctas,splits,us\n");
  for (const int threads : {32, 128, 256, 1024}) {
    for (const int ctas : {64, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144}) {
      std::printf("empty,%d,%d,0,%.3f\n", threads, ctas, microseconds([&](cudaStream_t s) { empty<<<ctas, threads, 0, s>>>(0); }));
      std::printf("brief,%d,%d,1,%.3f\n", threads, ctas,
                  microseconds([&](cudaStream_t s) { brief<<<ctas, threads, 0, s>>>(ones, (float*)out, 64); }));
      if (static_cast<size_t>(ctas) * static_cast<size_t>(threads) * 16 <= (1u << 29)) {
        std::printf("narrow,%d,%d,1,%.3f\n", threads, ctas,
                    microseconds([&](cudaStream_t s) { narrow<<<ctas, threads, 0, s>>>(in, out, ctas * threads); }));
      }
    }
  }
  for (const int heads : {2, 8, 16, 64, 128}) {
    for (const int sequences : {1, 4, 16}) {
      for (const int parts : {1, 2, 4, 8, 16, 32, 64, 128}) {
        if (static_cast<size_t>(heads) * static_cast<size_t>(sequences) * static_cast<size_t>(parts) * 2048 > (1u << 28)) continue;
        for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i) * parts;
        CHECK(cudaMemcpy(splits, host.data(), 4 * 4200, cudaMemcpyHostToDevice));
        std::printf("merge,128,%d,%d,%.3f\n", heads * sequences, parts,
                    microseconds([&](cudaStream_t s) { merge<<<heads * sequences, 128, 0, s>>>(splits, in, out, heads); }));
      }
    }
  }
  CHECK(cudaDeviceSynchronize());
  return 0;
}

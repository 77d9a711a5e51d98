// How long one step of K takes cuBLASLt's kernels on Hopper, by how many tiles there are along either side: one configuration
// each, taken from what the heuristic answers for a seed shape, on other shapes (data/measurements/h200/probe/nvjet_grid.csv;
// with a second argument one cold call each of ten, for a profiler: nvjet_counts.csv). Build: nvcc -O2 -std=c++17
// -gencode=arch=compute_90a,code=sm_90a nvjet_grid.cu -lcublasLt; run: nvjet_grid [SECONDS].
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x)                                        \
  do {                                               \
    auto s_ = (x);                                   \
    if (s_ != 0) {                                   \
      std::fprintf(stderr, "%s: %d\n", #x, int(s_)); \
    }                                                \
  } while (0)

static cublasLtHandle_t handle;
static char *pa, *pb, *pd;
static float4* flush;
static float* sink;
static cudaEvent_t e0, e1;
constexpr size_t kFlush = 256u << 20;

__global__ void fill(uint16_t* p, size_t n, bool eight) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    uint32_t x = uint32_t(i) * 2654435761u ^ uint32_t(i >> 32);
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    if (eight) p[i] = uint16_t((x & 0x8787u) | 0x3030u);
    else p[i] = uint16_t((x & 0x83ffu) | 0x3800u);
  }
}
__global__ void sweep(const float4* p, size_t n, float* out) {
  float s = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    s += p[i].x;
  if (s == 1.2345f) *out = s;
}
__global__ void spin(long long clk) {
  long long t = clock64();
  while (clock64() - t < clk) {
  }
}

struct Type {
  cudaDataType_t in, out;
  int bytes;
  bool fp8;
};
static const Type kHalf{CUDA_R_16F, CUDA_R_16F, 2, false}, kE4{CUDA_R_8F_E4M3, CUDA_R_16BF, 1, true};

struct Problem {
  cublasLtMatmulDesc_t d;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulPreference_t p;
  Problem(const Type& t, int64_t m, int64_t n, int64_t k, int64_t ld, void* scale) {
    cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    int32_t T = CUBLAS_OP_T, N = CUBLAS_OP_N;
    cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &T, sizeof T);
    cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &N, sizeof N);
    if (t.fp8) {
      int8_t f = 1;
      cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &f, 1);
      cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale, sizeof scale);
      cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale, sizeof scale);
    }
    cublasLtMatrixLayoutCreate(&a, t.in, k, n, ld);
    cublasLtMatrixLayoutCreate(&b, t.in, k, m, ld);
    cublasLtMatrixLayoutCreate(&c, t.out, n, m, n);
    cublasLtMatmulPreferenceCreate(&p);
    size_t ws = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &ws, sizeof ws);
  }
  ~Problem() {
    cublasLtMatmulPreferenceDestroy(p);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(c);
    cublasLtMatmulDescDestroy(d);
  }
};
template <class T>
T attr(const cublasLtMatmulAlgo_t& al, cublasLtMatmulAlgoConfigAttributes_t w) {
  T v{};
  size_t n;
  return cublasLtMatmulAlgoConfigGetAttribute(&al, w, &v, sizeof v, &n) ? T(-1) : v;
}
static void* scale_;
static void* ws_;
static int ask(const Type& t, int64_t m, int64_t n, int64_t k, cublasLtMatmulAlgo_t& al) {
  Problem p(t, m, n, k, k, scale_);
  cublasLtMatmulHeuristicResult_t r;
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, p.d, p.a, p.b, p.c, p.c, p.p, 1, &r, &found);
  if (found) al = r.algo;
  return found;
}
static float once(const Type& t, Problem& p, const cublasLtMatmulAlgo_t& al, bool cold) {
  if (cold) sweep<<<1056, 512>>>(flush, kFlush / 16, sink);
  spin<<<1, 32>>>(20000);
  float one = 1, zero = 0;
  cudaEventRecord(e0);
  auto s = cublasLtMatmul(handle, p.d, &one, pa, p.a, pb, p.b, &zero, pd, p.c, pd, p.c, &al, ws_, 1 << 20, 0);
  cudaEventRecord(e1);
  if (s) return -float(s);
  cudaEventSynchronize(e1);
  float ms;
  cudaEventElapsedTime(&ms, e0, e1);
  return ms * 1e3f;
}
static float median(std::vector<float> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}
struct Seed {
  const char* name;
  Type t;
  int m, n, k, bm, bn, cm, cn;
};

static void line(const char* what, const Seed& s, cublasLtMatmulAlgo_t al, int m, int n, int ld, int k1, int k2,
                 int cluster, int reps, int custom = -1) {
  if (cluster > 0) {
    uint16_t c = uint16_t(cluster);
    CK(cublasLtMatmulAlgoConfigSetAttribute(&al, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &c, sizeof c));
  }
  if (custom >= 0) {
    uint32_t c = uint32_t(custom);
    CK(cublasLtMatmulAlgoConfigSetAttribute(&al, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &c, sizeof c));
  }
  float out[4];
  for (int i = 0; i < 2; ++i) {
    Problem p(s.t, m, n, i ? k2 : k1, ld, scale_);
    cublasLtMatmulHeuristicResult_t r;
    auto st = cublasLtMatmulAlgoCheck(handle, p.d, p.a, p.b, p.c, p.c, &al, &r);
    if (st || r.state) {
      std::printf("%s,%s,%d,%d,%d,%d,%d,%d,%d,refused %d %d\n", what, s.name, m, n, ld, k1, k2, cluster, custom,
                  int(st), int(r.state));
      return;
    }
    std::vector<float> c, w;
    once(s.t, p, al, true);
    for (int j = 0; j < reps; ++j) c.push_back(once(s.t, p, al, true)), w.push_back(once(s.t, p, al, false));
    out[i] = median(c);
    out[2 + i] = median(w);
  }
  std::printf("%s,%s,%d,%d,%d,%d,%d,%d,%d,%.2f,%.2f,%.2f,%.2f\n", what, s.name, m, n, ld, k1, k2, cluster, custom,
              out[0], out[1], out[2], out[3]);
}

int main(int argc, char** argv) {
  const auto begin = std::chrono::steady_clock::now();
  const double limit = argc > 1 ? std::atof(argv[1]) : 12;
  const bool few = argc > 2;  // for a profiler
  auto late = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > limit; };
  CK(cublasLtCreate(&handle));
  const size_t big = size_t(20000) * 16384 * 2;
  cudaMalloc(&pa, big);
  cudaMalloc(&pb, big);
  cudaMalloc(&pd, 256u << 20);
  cudaMalloc(&flush, kFlush);
  cudaMalloc(&sink, 4);
  cudaMalloc(&scale_, 256);
  cudaMalloc(&ws_, 1 << 20);
  float one = 1;
  cudaMemcpy(scale_, &one, 4, cudaMemcpyHostToDevice);
  cudaEventCreate(&e0);
  cudaEventCreate(&e1);
  fill<<<1056, 512>>>((uint16_t*)pa, big / 2, false);
  fill<<<1056, 512>>>((uint16_t*)pb, big / 2, false);
  cudaMemset(flush, 0, kFlush);
  CK(cudaDeviceSynchronize());
  const std::vector<Seed> seeds{
      {"t120x64c12", kHalf, 360, 2688, 4096, 120, 64, 1, 2},  {"t48x128c12", kHalf, 416, 1792, 5376, 48, 128, 1, 2},
      {"t64x128c12", kHalf, 160, 5376, 4992, 64, 128, 1, 2},  {"t144x64c12", kHalf, 816, 1408, 7680, 144, 64, 1, 2},
      {"t128x96c21", kHalf, 1456, 1024, 3072, 128, 96, 2, 1}, {"t48x256c14", kHalf, 144, 8832, 6272, 48, 256, 1, 4},
      {"t64x64c14", kHalf, 184, 2560, 6784, 64, 64, 1, 4},    {"t64x64c24", kHalf, 376, 1152, 4352, 64, 64, 2, 4}};
  std::printf("# cublasLt %zu\n", cublasLtGetVersion());
  std::printf("what,seed,M,N,ld,K1,K2,cluster,custom,cold1_us,cold2_us,warm1_us,warm2_us\n");
  std::vector<cublasLtMatmulAlgo_t> algos(seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) {
    const Seed& s = seeds[i];
    if (!ask(s.t, s.m, s.n, s.k, algos[i])) {
      std::printf("# no answer for %s\n", s.name);
      continue;
    }
    auto& a = algos[i];
    std::printf("# %s algo %d tile %u stages %u splitk %d custom %u cluster %u\n", s.name,
                attr<int32_t>(a, CUBLASLT_ALGO_CONFIG_ID), attr<uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID),
                attr<uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID), attr<int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                attr<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                attr<uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  }
  const int K1 = 2048, K2 = 6144, LD = 6400;
  if (few) {  // one cold call each of a few grids
    struct Point {
      int seed, pm, pn;
    };
    for (Point q : {Point{0, 3, 21}, Point{0, 8, 8}, Point{0, 9, 7}, Point{0, 4, 16}, Point{1, 9, 7}, Point{1, 3, 21},
                    Point{2, 3, 21}, Point{2, 8, 8}, Point{3, 6, 11}, Point{3, 8, 8}}) {
      const Seed& s = seeds[q.seed];
      Problem p(s.t, q.pm * s.cm * s.bm, q.pn * s.cn * s.bn, K2, LD, scale_);
      std::fprintf(stderr, "count %s %d %d\n", s.name, q.pm, q.pn);
      once(s.t, p, algos[q.seed], true);
    }
    CK(cudaDeviceSynchronize());
    return 0;
  }
  // 1. counts of clusters along both sides, whole tiles, K between two depths of the same rows
  for (size_t i = 0; i < seeds.size() && !late(); ++i) {
    const Seed& s = seeds[i];
    const int most = s.cm * s.cn == 2 ? 66 : s.cm * s.cn == 4 ? 30 : 15;
    for (int pm = 1; pm <= std::min(most, 16); ++pm) {
      const int full = most / pm;
      for (int pn : {full, full - 1, 8, 7, 4}) {
        if (pn < 1 || pn > full || (pn != full && pm > 12) || (pn == full - 1 && full <= 9)) continue;
        line("grid", s, algos[i], pm * s.cm * s.bm, pn * s.cn * s.bn, LD, K1, K2, 0, 5);
      }
    }
  }
  // 2. how rows lie: strides
  for (int ld : {6144, 6208, 6272, 6336, 6400, 6464, 6528, 6656, 6912, 7168, 7680, 8192, 8256, 8448})
    for (int i : {0, 1, 2}) {
      if (late()) break;
      const Seed& s = seeds[i];
      const int pm = i == 1 ? 9 : 3, pn = i == 1 ? 7 : 21;
      line("stride", s, algos[i], pm * s.bm, pn * 2 * s.bn, ld, K1, K2, 0, 5);
    }
  // 3. rows that are not there
  for (int miss : {0, 8, 16, 32, 48, 63, 64, 80, 96, 112})
    for (int i : {0, 2, 3}) {
      if (late()) break;
      const Seed& s = seeds[i];
      if (miss < s.bm) line("outside_m", s, algos[i], 3 * s.bm - miss, 21 * 2 * s.bn, LD, K1, K2, 0, 5);
      if (miss < 2 * s.bn) line("outside_n", s, algos[i], 3 * s.bm, 21 * 2 * s.bn - miss, LD, K1, K2, 0, 5);
    }
  // 4. other clusters and orders of the same tile
  for (int i : {0, 1, 2, 3})
    for (auto [pm, pn] : {std::pair{3, 40}, std::pair{8, 16}, std::pair{6, 20}, std::pair{10, 12}})
      for (int cluster : {2, 3, 4, 5, 6, 7, 8, 9})
        for (int custom : {-1, 0, 1, 2, 3, 4, 5}) {
          if (late() || (custom >= 0 && cluster > 5)) continue;
          const Seed& s = seeds[i];
          line("cluster", s, algos[i], pm * s.bm, pn * s.bn, LD, K1, K2, cluster, 3, custom);
        }
  // 5. few tiles and many turns, from one CTA to three turns
  for (int i : {0, 2})
    for (int pn : {1, 2, 4, 8, 16, 22, 33, 44, 55, 66}) {
      if (late()) break;
      const Seed& s = seeds[i];
      line("turns", s, algos[i], 3 * s.bm, pn * 2 * s.bn, LD, K1, K2, 0, 5);
    }
  std::printf("# all in %.1f s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return 0;
}

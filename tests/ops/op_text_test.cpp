#include "ops/table/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "arch/error.hpp"
#include "tests/support/random_op.hpp"

namespace {
std::atomic<long> allocations{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace plumbline::op_text_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of(std::string_view op, std::string_view dtype, std::string_view shape) {
  try {
    (void)parse_op(op, dtype, shape);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no error";
}

/// One well-formed row for each row of the contract's table.
struct Row {
  const char *op, *dtype, *shape;
  Op expected;
};

std::vector<Row> contract_rows() {
  const Precision bf16;
  std::vector<Row> rows{
      {"gemm", "bf16", "M=4096;N=1024;K=512", Gemm{4096, 1024, 512, 1, bf16, false}},
      {"gemm", "w4a16", "M=1,N=2,K=3,batch=4,bias=1", Gemm{1, 2, 3, 4, *parse_precision("w4a16"), true}},
      {"grouped_gemm", "fp8", "E=256;topk=8;T=64;N=7168;K=2048;skew=30",
       GroupedGemm{256, 8, 64, 7168, 2048, 30, *parse_precision("fp8")}},
      {"attention_prefill", "fp16", "B=1;Hq=32;Hkv=8;D=128;S=4096;causal=1",
       AttentionPrefill{1, 32, 8, 128, 128, 4096, 4096, true, 0, -1, DType::fp16, DType::fp16}},
      {"attention_prefill", "bf16", "B=1;Hq=32;Hkv=8;D=192;Dv=128;S=16;Skv=99;causal=0;window=7;append=1;kv=fp8",
       AttentionPrefill{1, 32, 8, 192, 128, 16, 99, false, 7, 1, DType::bf16, DType::fp8}},
      {"attention_decode", "bf16", "B=64;Hq=32;Hkv=8;D=128;S=2048;page=16;window=1024",
       AttentionDecode{64, 32, 8, 128, 128, 2048, 16, 1024, DType::bf16, DType::bf16}},
      {"attention_decode", "bf16", "B=64;Hq=32;Hkv=8;D=128;S=2048;append=1;kv=fp8",
       AttentionDecode{64, 32, 8, 128, 128, 2048, 0, 0, DType::bf16, DType::fp8, 1}},
      {"mla_decode", "bf16", "B=8;H=128;S=4096;Dc=512;Dr=64;kv=fp8",
       MlaDecode{8, 128, 4096, 512, 64, DType::bf16, DType::fp8}},
      {"rope", "bf16", "tokens=5;heads=40;D=128", Rope{5, 40, 128, DType::bf16}},
      {"topk", "fp32", "rows=64;cols=128256;k=50", TopK{64, 128256, 50, DType::fp32}},
      {"embedding", "bf16", "rows=64;cols=4096", Embedding{64, 4096, DType::bf16}},
      {"sum_all", "fp32", "n=1000", Scan{ScanKind::sum_all, 1000, DType::fp32}},
      {"cumsum", "fp32", "n=1000", Scan{ScanKind::cumsum, 1000, DType::fp32}},
      {"spmv", "fp64", "rows=10;cols=20;nnz=30", Spmv{10, 20, 30, DType::fp64}},
      {"gemm_sparse24", "bf16", "M=1;N=2;K=8", GemmSparse24{1, 2, 8, bf16}},
      {"all_to_all", "bf16", "bytes=1048576;gpus=8", Collective{CollectiveKind::all_to_all, 1048576, 8, DType::bf16}},
      {"moe_combine", "bf16", "tokens=5;cols=64;topk=2;experts=8;gpus=4;sms=20;groups=4;top_groups=2",
       ExpertExchange{ExpertExchangeKind::combine, 5, 64, 2, 8, 4, 20, 0, 4, 2, 0, DType::bf16}},
      {"h2d", "", "bytes=4096;both=1", Transfer{TransferKind::h2d, 4096, 1, true}},
      {"h2d", "", "bytes=4096", Transfer{TransferKind::h2d, 4096}}};
  for (const char* op : {"layernorm", "rmsnorm", "softmax", "silu", "gelu", "add", "copy", "sum_rows", "argmax",
                         "transpose_copy", "swiglu"}) {
    const auto kind = static_cast<RowwiseKind>(rows.size() - 19);
    rows.push_back({op, "fp16", "rows=7;cols=9", Rowwise{kind, 7, 9, false, DType::fp16, DType::fp16}});
  }
  return rows;
}

TEST(OpText, ReadsTheContractsTable) {
  for (const Row& row : contract_rows()) {
    SCOPED_TRACE(std::string(row.op) + " " + row.shape);
    EXPECT_EQ(parse_op(row.op, row.dtype, row.shape), row.expected);
    EXPECT_EQ(op_name(row.expected), row.op);
    EXPECT_FALSE(op_is_ours(row.op));
  }
}

TEST(OpText, EveryNamedOperatorHasAUsageLine) {
  EXPECT_EQ(op_names().front(), "gemm");
  EXPECT_EQ(op_usage("rope"), "tokens,heads,D");
  EXPECT_THAT(std::string(op_usage("attention_prefill")), HasSubstr("B,Hq,Hkv,D,S,causal (0/1) [Skv,window"));
  for (const std::string& name : op_names()) EXPECT_FALSE(op_usage(name).empty()) << name;
  EXPECT_TRUE(op_is_ours("quantize"));
  EXPECT_TRUE(op_is_ours("scale_mask_softmax_dropout_backward"));
  EXPECT_EQ(parse_op("softmax_backward", "fp16", "rows=7;cols=9"),
            Op(Rowwise{RowwiseKind::softmax_backward, 7, 9, false, DType::fp16, DType::fp16}));
  EXPECT_TRUE(op_is_ours("softmax_topk"));
  EXPECT_THROW((void)op_usage("gemmm"), BadInput);
}

TEST(OpText, ScalingSaysWhoHasAScale) {
  const Op tensor = QuantizeDynamic{4, 256, 0}, token = QuantizeDynamic{4, 256, 1},
           block = QuantizeDynamic{4, 256, 128};
  EXPECT_EQ(parse_op("quantize", "bf16", "rows=4;cols=256;scaling=tensor"), tensor);
  EXPECT_EQ(parse_op("quantize", "bf16", "scaling = token; rows=4; cols=256"), token);
  EXPECT_EQ(parse_op("quantize", "", "rows=4;cols=256;scaling=block;out=fp8"), block);
  EXPECT_EQ(parse_op("quantize_dynamic", "", "rows=4;cols=256;scaling=block"), block);
  EXPECT_EQ(shape_text(block), "rows=4;cols=256;block=128");
  EXPECT_EQ(op_name(parse_op("quantize", "", "rows=4;cols=256")), "quantize") << "none said";
  EXPECT_THAT(error_of("quantize", "", "rows=4;cols=256;scaling=row"), HasSubstr("one of tensor, token, block"));
  EXPECT_THAT(error_of("quantize_dynamic", "", "rows=4;cols=256;block=1;scaling=block"), HasSubstr("says otherwise"));
  EXPECT_THAT(error_of("quantize_dynamic", "", "rows=4;cols=256;block=5"), HasSubstr("expected 0, 1 or 128"));
  EXPECT_THAT(error_of("quantize", "", "rows=4;cols=256;scaling=token;out=fp32"), HasSubstr("a type of 8 bits"));
  EXPECT_THAT(error_of("silu", "", "rows=4;cols=256;scaling=token"), HasSubstr("unknown key 'scaling'"));
  EXPECT_THAT(std::string(op_usage("quantize")), HasSubstr("scaling (tensor|token|block)"));
}

/// Operators made in code are held to what text is held to.
TEST(OpText, ChecksOperatorsThatNoTextGave) {
  for (const Row& row : contract_rows()) EXPECT_NO_THROW(check(row.expected)) << row.op;
  const auto refusal = [](const Op& op) -> std::string {
    try {
      check(op);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "(accepted)";
  };
  Gemm gemm{1, 2, 3, 1, {}, false};
  EXPECT_EQ(refusal(gemm), "(accepted)");
  gemm.n = 0;
  EXPECT_EQ(refusal(gemm), "op 'gemm': key 'N': expected a number from 1 to 1099511627776, found 0");
  EXPECT_THAT(refusal(GroupedGemm{8, 2, 4, 5, 6, std::nan(""), {}}), HasSubstr("key 'skew'"));
  EXPECT_THAT(refusal(AttentionDecode{4, 3, 2, 64, 64, 128, 0, 0}), HasSubstr("op 'attention_decode'"))
      << "3 on 2 heads";
}

TEST(OpText, KeysComeInAnyOrderWithSpaces) {
  EXPECT_EQ(parse_op(" gemm ", " bf16 ", " K = 3 ; M=1 ,N= 2;"), parse_op("gemm", "bf16", "M=1;N=2;K=3"));
  EXPECT_EQ(parse_op("gemm", "", "M=1;N=2;K=3"), parse_op("gemm", "bf16", "M=1;N=2;K=3"));
}

TEST(OpText, WholeNumbersMayHaveAnExponent) {
  EXPECT_EQ(parse_op("d2d", "", "bytes=1e6"), parse_op("d2d", "", "bytes=1000000"));
  EXPECT_EQ(parse_op("gemm", "", "M=1.5e1;N=2;K=1e3"), parse_op("gemm", "", "M=15;N=2;K=1000"));
}

TEST(OpText, AKeyInTheOtherCaseIsNamed) {
  EXPECT_THAT(error_of("gemm", "", "m=16;N=1;K=1"), HasSubstr("unknown key 'm' (did you mean 'M'?)"));
  EXPECT_THAT(error_of("rmsnorm", "", "ROWS=16;cols=1"), HasSubstr("unknown key 'ROWS' (did you mean 'rows'?)"));
}

TEST(OpText, OperatorsAreFoundByTheNamesThatOthersGiveThem) {
  EXPECT_THAT(error_of("matmul", "", "M=1"), HasSubstr("(did you mean 'gemm'?)"));
  EXPECT_THAT(error_of("Linear", "", "M=1"), HasSubstr("(did you mean 'gemm'?)"));
  EXPECT_THAT(error_of("flash_attention", "", "M=1"), HasSubstr("(did you mean 'attention_prefill'?)"));
  EXPECT_THAT(error_of("allreduce", "", ""), HasSubstr("(did you mean 'all_reduce'?)"));
}

TEST(OpText, SaysWhatIsWrongInOneLine) {
  EXPECT_EQ(error_of("gem", "bf16", "M=1"), "op 'gem': unknown operator (did you mean 'gemm'?)");
  EXPECT_THAT(error_of("gemm", "bf17", "M=1;N=1;K=1"), HasSubstr("unknown dtype 'bf17' (did you mean 'bf16'?)"));
  EXPECT_THAT(error_of("rmsnorm", "w4a16", "rows=1;cols=1"), HasSubstr("unknown dtype 'w4a16'"));
  EXPECT_THAT(error_of("gemm", "bf16", "M=1;N=1"), HasSubstr("missing key 'K', expected M,N,K [batch"));
  EXPECT_THAT(error_of("gemm", "bf16", ""), HasSubstr("missing key 'M'"));
  EXPECT_THAT(error_of("gemm", "bf16", "M=1;N=1;K=1;M=1"), HasSubstr("key 'M' is given twice"));
  EXPECT_THAT(error_of("gemm", "bf16", "M=1;N=1;K=1;batc=1"), HasSubstr("unknown key 'batc' (did you mean 'batch'?)"));
  EXPECT_THAT(error_of("gemm", "bf16", "M=1;N;K=1"), HasSubstr("expected key=value, found 'N'"));
  EXPECT_THAT(error_of("gemm", "bf16", "M=1;;N=1;K=1"), HasSubstr("between two separators"));
  for (const char* bad :
       {"0", "-5", "1.5", "1.5e0", "1e-3", "1e13", "", "x", "99999999999999999999", "1099511627777", "+1", "0x10"}) {
    EXPECT_EQ(error_of("gemm", "bf16", std::string("M=") + bad + ";N=1;K=1"),
              std::string("op 'gemm': key 'M': expected a whole number from 1 to 2^40, found '") + bad + "'");
  }
  EXPECT_THAT(error_of("attention_prefill", "", "B=1;Hq=1;Hkv=1;D=1;S=1;causal=2"), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(error_of("mla_decode", "", "B=1;H=1;S=1;Dc=1;Dr=1;kv=fp9"), HasSubstr("(did you mean 'fp"));
  EXPECT_THAT(error_of("grouped_gemm", "", "E=1;topk=1;T=1;N=1;K=1;skew=nan"), HasSubstr("a number from 0 to 100"));
  EXPECT_THAT(error_of(std::string("a\nb") + std::string(500, 'x'), "", ""), Not(HasSubstr("\n")));
  EXPECT_LT(error_of(std::string(500, 'x'), "", "").size(), 200u);
}

TEST(OpText, RefusesShapesThatContradictThemselves) {
  EXPECT_THAT(error_of("attention_decode", "", "B=1;Hq=3;Hkv=2;D=8;S=1"), HasSubstr("multiple of Hkv"));
  EXPECT_THAT(error_of("attention_prefill", "", "B=1;Hq=2;Hkv=2;D=8;S=9;Skv=8;causal=1"), HasSubstr("at least S"));
  EXPECT_THAT(error_of("grouped_gemm", "", "E=2;topk=3;T=1;N=1;K=1"), HasSubstr("at most E"));
  EXPECT_THAT(error_of("topk", "", "rows=2;cols=3;k=4"), HasSubstr("at most cols"));
  EXPECT_THAT(error_of("softmax_topk", "", "rows=2;cols=3;k=4"), HasSubstr("at most cols"));
  EXPECT_THAT(error_of("spmv", "", "rows=2;cols=3;nnz=7"), HasSubstr("at most rows x cols"));
  EXPECT_THAT(error_of("gemm_sparse24", "", "M=2;N=3;K=7"), HasSubstr("multiple of 4"));
  EXPECT_THAT(error_of("rope", "", "tokens=2;heads=3;D=7"), HasSubstr("even"));
  EXPECT_THAT(error_of("silu", "", "rows=2;cols=3;residual=1"), HasSubstr("only norms"));
}

TEST(OpText, RefusesWhatWouldOverflow) {
  const std::string huge = "1099511627776";  // 2^40
  EXPECT_EQ(std::get<Scan>(parse_op("cumsum", "fp32", "n=" + huge)).n, std::int64_t{1} << 40);
  EXPECT_THAT(error_of("gemm", "", "M=" + huge + ";N=" + huge + ";K=1"), HasSubstr("too large"));
  EXPECT_THAT(error_of("gemm", "", "M=4194304;N=4194304;K=4194304"), HasSubstr("2^62 multiply-adds"));
  EXPECT_THAT(error_of("copy", "", "rows=" + huge + ";cols=" + huge), HasSubstr("too large"));
  EXPECT_THAT(error_of("attention_prefill", "", "B=1;Hq=64;Hkv=64;D=128;S=" + huge + ";causal=1"),
              HasSubstr("too large"));
}

TEST(OpText, LeavesOutWhatIsUsual) {
  EXPECT_EQ(shape_text(Gemm{1, 2, 3, 1, Precision{}, false}), "M=1;N=2;K=3");
  EXPECT_EQ(shape_text(Gemm{1, 2, 3, 4, Precision{}, true}), "M=1;N=2;K=3;batch=4;bias=1");
  const Precision fp8_out{DType::fp8, DType::fp8, DType::fp8, DType::fp8};
  const Op gemm = Gemm{1, 2, 3, 1, fp8_out, false};
  EXPECT_EQ(std::string(dtype_text(gemm)) + " " + shape_text(gemm), "fp8 M=1;N=2;K=3;out=fp8");
  EXPECT_EQ(shape_text(Rowwise{RowwiseKind::quantize, 4, 5, false, DType::bf16, DType::fp8}), "rows=4;cols=5");
  EXPECT_EQ(shape_text(SoftmaxTopK{64, 128256, 50}), "rows=64;cols=128256;k=50");
  EXPECT_EQ(parse_op("softmax_topk", "bf16", "rows=64;cols=128256;k=50"), Op(SoftmaxTopK{64, 128256, 50}));
}

RC_GTEST_PROP(OpText, ReadsBackWhatItWrites, ()) {
  const Op op = testing_support::random_op();
  const std::string shape = shape_text(op);
  RC_LOG() << op_name(op) << " " << dtype_text(op) << " " << shape;
  RC_ASSERT(parse_op(op_name(op), dtype_text(op), shape) == op);
  RC_ASSERT(shape_text(parse_op(op_name(op), dtype_text(op), shape)) == shape);
}

RC_GTEST_PROP(OpText, AnyTextGivesAnOperatorOrOneLine, ()) {
  const auto names = op_names();
  const std::string op = *rc::gen::elementOf(names);
  const auto shape =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("MNKBSDHqkvrowsc=;,0123456789\n ")));
  const std::string message = error_of(op, "bf16", shape);
  RC_ASSERT(message.find('\n') == std::string::npos);
}

TEST(OpText, GoodRowsDoNotAllocate) {
  const auto rows = contract_rows();
  for (const Row& row : rows) (void)parse_op(row.op, row.dtype, row.shape);
  const long before = allocations.load();
  for (const Row& row : rows) (void)parse_op(row.op, row.dtype, row.shape);
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace plumbline::op_text_test

// Operators on whole rows of fp16.
#include "kernels/rows/row_kernels.cuh"

namespace plumbline {

template void launch_rows_of<__half>(const Rowwise&, const RowChoice&, const RowwiseBuffers&, cudaStream_t);

}  // namespace plumbline

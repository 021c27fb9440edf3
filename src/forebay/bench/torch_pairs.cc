// torch_pairs: PyTorch's caching allocator as two C functions with the interface of a pluggable allocator, for the
// loop that times all allocators alike. Compiled against the installed torch when it is asked for; no part of forebay.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

extern "C" void* torch_pairs_alloc(std::size_t bytes, int, void* stream) {
  return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
}

extern "C" void torch_pairs_free(void* block, std::size_t, int, void*) {
  c10::cuda::CUDACachingAllocator::raw_delete(block);
}

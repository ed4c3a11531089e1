int a = cudaSuccess;
#define X "never ended
int b = cudaSuccess; ÿş cudaFreeÃ© cafÃ©cudaFree cudaFree
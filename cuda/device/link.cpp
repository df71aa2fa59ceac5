// The module is made of CUDA sources; this file lets the C++ compiler link it.

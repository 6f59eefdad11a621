/* qnn_provider_stub.c - the library of Qualcomm's provider for ONNX Runtime, which makes none. */
__attribute__((visibility("default"))) void *CreateEpFactories(void);
void *CreateEpFactories(void) { return (void *)0; }

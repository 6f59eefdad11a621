/* accel-gpu.js - the worker that makes the module's WebGPU calls.
 *
 * The module's threads sleep while they wait for a result, and a browser's results come by promises, so both live in
 * workers of their own.  The calls are records in a ring in the module's shared memory: backends/webgpu/wgp_page.h has the
 * layouts and the list of calls, which are read here by number.  Receives {memory, ring} once and answers "ready". */
"use strict";

const RING = 1 << 16, MESSAGE = 400;
const WRITTEN = 0, READ = 1, ATTACHED = 2, LOST = 3, WORDS = 4; // words of wgp_ring
const VALIDATION = 2, OUT_OF_MEMORY = 3;                        // WGPUErrorType
const LIMITS = ["maxStorageBuffersPerShaderStage", "maxStorageBufferBindingSize", "maxBufferSize", "minStorageBufferOffsetAlignment",
                "minUniformBufferOffsetAlignment", "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX",
                "maxComputeWorkgroupsPerDimension"]; // wgp_page_adapter.limits

let memory, ring;
const objects = new Map(), finished = new Map(); // by handle; promises by submission

/* The memory grows: views of it are made anew when they are used. */
const words = () => new Int32Array(memory.buffer);
const bytes = () => new Uint8Array(memory.buffer);
const wide = (low, high) => low + high * 4294967296;

const putText = (at, text, room) => {
  const encoded = new TextEncoder().encode(text).slice(0, room - 1);
  bytes().set(encoded, at);
  bytes()[at + encoded.length] = 0;
};

/* Fills the wgp_reply at `at` and wakes the thread that waits for it. */
const answer = (at, error = 0, message = "") => {
  const heap = words(), word = at >>> 2;
  heap[word + 1] = error;
  putText(at + 8, message, MESSAGE);
  Atomics.store(heap, word, 1);
  Atomics.notify(heap, word);
};

const answerError = (at, error) => answer(at, error instanceof GPUOutOfMemoryError ? OUT_OF_MEMORY : VALIDATION, String(error.message || error));

/* The first of two error scopes' findings. */
const answerScopes = async (at, ...scopes) => {
  try {
    const error = (await Promise.all(scopes)).find((found) => found);
    if (error) answerError(at, error);
    else answer(at);
  } catch (error) {
    answerError(at, error);
  }
};

const findAdapter = async () => {
  const adapter = await navigator.gpu.requestAdapter({powerPreference: "high-performance"});
  if (!adapter) throw new Error("the browser has no WebGPU adapter: its settings, the driver or the flag of its own (chrome://gpu) are in the way");
  return adapter;
};

/* What was wrong with commands since the last POLL is known by a scope that stays open from one to the next. */
const watch = (device) => device.pushErrorScope("validation");

const stride = 5; // words of a buffer that is bound
const calls = [
  /* SKIP */ () => {},
  async function ADAPTER(at) {
    try {
      const {info, limits} = await findAdapter(), software = info.isFallbackAdapter || info.architecture === "swiftshader";
      words()[(at + 8 + MESSAGE) >>> 2] = software ? 1 : 0;
      putText(at + 12 + MESSAGE, info.description || info.device || `${info.vendor} ${info.architecture}`.trim() || "GPU", 96);
      putText(at + 12 + MESSAGE + 96, info.vendor, 64);
      new Float64Array(memory.buffer).set(LIMITS.map((name) => limits[name]), (at + 12 + MESSAGE + 160 + 4) >>> 3);
      answer(at);
    } catch (error) {
      answerError(at, error);
    }
  },
  async function DEVICE(at, id) {
    try {
      const from = await findAdapter(); // an adapter gives one device
      const device = await from.requestDevice({requiredLimits: Object.fromEntries(LIMITS.map((name) => [name, from.limits[name]]))});
      device.lost.then(({reason}) => reason === "destroyed" || Atomics.store(words(), ring + LOST, 1));
      watch(device);
      objects.set(id, device);
      answer(at);
    } catch (error) {
      answerError(at, error);
    }
  },
  function RELEASE(id) {
    objects.get(id)?.destroy?.(); // of buffers and devices
    objects.delete(id);
  },
  function BUFFER(at, device, id, usage, low, high) {
    const on = objects.get(device);
    on.pushErrorScope("validation");
    on.pushErrorScope("out-of-memory");
    try {
      objects.set(id, on.createBuffer({usage, size: wide(low, high)}));
    } catch (error) { // sizes that no browser has
      answer(at, OUT_OF_MEMORY, String(error.message));
      on.popErrorScope();
      on.popErrorScope();
      return;
    }
    answerScopes(at, on.popErrorScope(), on.popErrorScope());
  },
  async function MAP(at, buffer, offset, size, to) {
    const from = objects.get(buffer);
    try {
      await from.mapAsync(GPUMapMode.READ, offset, size);
      bytes().set(new Uint8Array(from.getMappedRange(offset, size)), to);
      from.unmap();
      answer(at);
    } catch (error) {
      answerError(at, error);
    }
  },
  function SHADER(at, device, id, text, n) {
    const code = new TextDecoder().decode(bytes().slice(text, text + n));
    objects.set(id, objects.get(device).createShaderModule({code}));
    answer(at);
  },
  function GROUP_LAYOUT(device, id, n, ...uniform) {
    const entries = uniform.slice(0, n).map((is, binding) => (
      {binding, visibility: GPUShaderStage.COMPUTE, buffer: is ? {type: "uniform", hasDynamicOffset: true} : {type: "storage"}}));
    objects.set(id, objects.get(device).createBindGroupLayout({entries}));
  },
  function PIPELINE_LAYOUT(device, id, group) {
    objects.set(id, objects.get(device).createPipelineLayout({bindGroupLayouts: [objects.get(group)]}));
  },
  async function PIPELINE(at, device, id, layout, module) {
    const compute = {module: objects.get(module), entryPoint: "main"};
    try {
      objects.set(id, await objects.get(device).createComputePipelineAsync({layout: objects.get(layout), compute}));
      answer(at);
    } catch (error) {
      answerError(at, error);
    }
  },
  function BIND_GROUP(device, id, layout, n, ...bound) {
    const entries = Array.from({length: n}, (_, binding) => {
      const [buffer, low, high, sizeLow, sizeHigh] = bound.slice(stride * binding, stride * (binding + 1));
      return {binding, resource: {buffer: objects.get(buffer), offset: wide(low, high), size: wide(sizeLow, sizeHigh)}};
    });
    objects.set(id, objects.get(device).createBindGroup({layout: objects.get(layout), entries}));
  },
  function ENCODER(device, id) {
    objects.set(id, objects.get(device).createCommandEncoder());
  },
  function COPY(encoder, from, low, high, to, toLow, toHigh, bytesLow, bytesHigh) {
    objects.get(encoder).copyBufferToBuffer(objects.get(from), wide(low, high), objects.get(to), wide(toLow, toHigh), wide(bytesLow, bytesHigh));
  },
  function FINISH(encoder, id) {
    objects.set(id, objects.get(encoder).finish());
  },
  function PASS(encoder, id) {
    objects.set(id, objects.get(encoder).beginComputePass());
  },
  function SET_PIPELINE(pass, pipeline) {
    objects.get(pass).setPipeline(objects.get(pipeline));
  },
  function SET_GROUP(pass, group, offset) {
    objects.get(pass).setBindGroup(0, objects.get(group), [offset]);
  },
  function DISPATCH(pass, x, y, z) {
    objects.get(pass).dispatchWorkgroups(x, y, z);
  },
  function END(pass) {
    objects.get(pass).end();
  },
  function WRITE(at, device, buffer, low, high, from, n) {
    objects.get(device).queue.writeBuffer(objects.get(buffer), wide(low, high), bytes(), from, n);
    answer(at);
  },
  function SUBMIT(device, index, commands) {
    const {queue} = objects.get(device);
    queue.submit(commands ? [objects.get(commands)] : []);
    finished.set(index, queue.onSubmittedWorkDone());
  },
  async function POLL(at, device, index) {
    const on = objects.get(device), scope = on.popErrorScope(), done = finished.get(index);
    watch(on);
    for (const old of finished.keys()) if (old <= index) finished.delete(old);
    await done?.catch(() => {});
    answerScopes(at, scope);
  },
];

/* Takes all records there are; what a call throws is the error of who waits for it, if anybody does. */
const drain = () => {
  const heap = new Uint32Array(memory.buffer);
  let read = Atomics.load(heap, ring + READ);
  while (read !== Atomics.load(heap, ring + WRITTEN)) {
    const at = ring + WORDS + (read % RING), n = heap[at] >>> 8, call = heap[at] & 255;
    const record = heap.slice(at + 1, at + n);
    read = (read + n) >>> 0;
    Atomics.store(heap, ring + READ, read);
    Atomics.notify(words(), ring + READ);
    try {
      calls[call](...record);
    } catch (error) {
      if (["BUFFER", "SHADER", "WRITE"].includes(calls[call].name)) answerError(record[0], error);
      else console.error("accel-gpu:", calls[call].name, error);
    }
  }
  return read;
};

const serve = async () => {
  for (;;) {
    const read = drain(), wait = Atomics.waitAsync(words(), ring + WRITTEN, read | 0);
    if (wait.async) await wait.value;
  }
};

onmessage = ({data}) => {
  ({memory} = data);
  ring = data.ring >>> 2;
  Atomics.store(words(), ring + ATTACHED, 1);
  postMessage("ready");
  serve();
};

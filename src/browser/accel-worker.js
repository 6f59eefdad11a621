/* accel-worker.js - the worker in which the WebAssembly module lives: pages are not blocked by it.
 *
 * Receives {id, call, request, files} of accel.mjs, answers {id, result} or {id, error}, and sends
 * {id, event} while a call runs.  One call at a time, in the order of their arrival. */
"use strict";

let module, current, mounted = 0;

/* Offsets come as signed numbers; above 2 GiB they are negative. */
const allocate = (bytes) => {
  const at = module._malloc(bytes) >>> 0;
  if (!at) throw {name: "out-of-memory", message: `the module has no memory left for ${bytes} bytes`, remedy: "take a smaller model or precision int8"};
  return at;
};

const text = (value) => {
  const bytes = module.lengthBytesUTF8(value) + 1, at = allocate(bytes);
  module.stringToUTF8(value, at, bytes);
  return at;
};

/* One request of src/browser/browser.c. */
const ask = (request) => {
  const at = text(JSON.stringify(request)), answer = module._accel_browser_call(at) >>> 0;
  module._free(at);
  if (!answer) throw {name: "out-of-memory", message: "the module has no memory left for the answer", remedy: "take a smaller model or precision int8"};
  const {result, error} = JSON.parse(module.UTF8ToString(answer));
  module._free(answer);
  if (error) throw error;
  return result;
};

/* A folder with the files, which are read where they are: [{path, blob}]. */
const mount = (files) => {
  const folder = `/models/${++mounted}`;
  module.FS.mkdirTree(folder);
  module.FS.mount(module.WORKERFS, {blobs: files.map(({path, blob}) => ({name: path, data: blob}))}, folder);
  return folder;
};

/* Starts the worker that makes the module's WebGPU calls, before anything may wait for one. */
const startGpu = async () => {
  if (!module._accel_browser_gpu_ring || !navigator.gpu || !Atomics.waitAsync) return;
  const worker = new Worker(new URL("./accel-gpu.js", location.href));
  await new Promise((resolve, reject) => {
    worker.onmessage = resolve;
    worker.onerror = () => reject({name: "not-found", message: "accel-gpu.js could not be loaded", remedy: "copy the whole folder build/browser"});
    worker.postMessage({memory: module.wasmMemory, ring: module._accel_browser_gpu_ring() >>> 0});
  });
};

const calls = {
  async start({threads, script}) {
    importScripts(script);
    module = await accelWasm({onEvent: (json) => postMessage({id: current, event: JSON.parse(json)}), mainScriptUrlOrBlob: script});
    await startGpu();
    if (module._accel_browser_create(threads || 0)) throw {name: "error", message: "the module could not be set up", remedy: ""};
    const shared = module.HEAP32.buffer;
    return shared instanceof ArrayBuffer ? {} : {memory: shared, cancel: module._accel_browser_cancel() >> 2};
  },
  open(request, files) {
    const folder = mount(files);
    try {
      return {folder, ...ask({call: "open", model: folder, ...request})};
    } catch (error) {
      module.FS.unmount(folder);
      throw error;
    }
  },
  close({folder, endpoint}) {
    ask({call: "close", endpoint});
    module.FS.unmount(folder);
  },
  verify({golden, ...request}, files) {
    const folder = mount(files);
    try {
      return ask({call: "verify", model: folder, golden: `${folder}/${golden}`, ...request});
    } finally {
      module.FS.unmount(folder);
    }
  },
  embed(request) {
    const found = ask({call: "embed", ...request}), rows = found.row_start.at(-1), at = found.data >>> 2;
    return {dim: found.dim, perToken: found.per_token, tokens: found.tokens, rowStart: found.row_start,
            data: module.HEAPF32.slice(at, at + rows * found.dim)};
  },
  async classify_images({images, ...request}) {
    const held = [];
    try {
      for (const blob of images) {
        const bytes = new Uint8Array(await blob.arrayBuffer()), data = allocate(bytes.length);
        held.push({name: blob.name || `image ${held.length}`, data, bytes: bytes.length});
        module.HEAPU8.set(bytes, data);
      }
      return ask({call: "classify_images", images: held, ...request});
    } finally {
      for (const {data} of held) module._free(data);
    }
  },
};

/* Whatever was thrown, as something that can be sent. */
const failure = (error) => ({name: error.name || "error", message: error.message || String(error), remedy: error.remedy || "", code: error.code});

const handle = async ({id, call, request, files}) => {
  current = id;
  try {
    const run = calls[call] || ((given) => ask({call, ...given}));
    postMessage({id, result: await run(request, files)});
  } catch (error) {
    postMessage({id, error: failure(error)});
  }
};

let last = Promise.resolve();
onmessage = ({data}) => (last = last.then(() => handle(data)));

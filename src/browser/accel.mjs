/* accel.mjs - libaccel in a web page: see accel.d.ts for what each function takes and gives.
 *
 * Nothing here fetches a model: pages hand over files (File, Blob, Response, bytes, folders of the
 * origin's private file system), which are read part by part while a model is loaded. */

/** What the library says when a call fails; `remedy` is what would help. */
export class AccelError extends Error {
  constructor({name, message, remedy, code}) {
    super(remedy ? `${message} (${remedy})` : message);
    this.name = "AccelError";
    this.status = name.replace(/^(ACCEL_)?ERROR_/, "").toLowerCase().replaceAll("_", "-"); // "not-found"
    this.remedy = remedy;
    this.code = code;
  }
}

/* ---- the worker ---- */

class Module {
  constructor(threads) {
    const isolated = globalThis.crossOriginIsolated === true && threads !== 1;
    const script = new URL(isolated ? "./accel-wasm-threads.js" : "./accel-wasm.js", import.meta.url).href;
    this.waiting = new Map();
    this.next = 0;
    this.worker = new Worker(new URL("./accel-worker.js", import.meta.url));
    this.worker.onmessage = ({data}) => this.receive(data);
    this.worker.onerror = (event) => this.fail(event.message || "the worker could not be loaded");
    this.ready = this.call("start", {threads, script}).then((shared) => {
      this.cancelWord = shared.memory ? [new Int32Array(shared.memory), shared.cancel] : undefined;
    });
    this.ready.catch(() => {});
  }

  receive({id, result, error, event}) {
    const call = this.waiting.get(id);
    if (!call) return;
    if (event) {
      call.onEvent?.(event);
      return;
    }
    this.waiting.delete(id);
    if (error) call.reject(new AccelError(error));
    else call.resolve(result);
  }

  fail(message) {
    for (const call of this.waiting.values()) call.reject(new AccelError({name: "error", message, remedy: ""}));
    this.waiting.clear();
  }

  call(call, request, {files, onEvent, signal} = {}) {
    return new Promise((resolve, reject) => {
      const id = ++this.next;
      if (signal?.aborted) throw signal.reason;
      if (signal && !this.cancelWord)
        throw new AccelError({name: "unsupported", message: "signal: a call can be cancelled where the page is cross-origin isolated alone",
                              remedy: "send the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp"});
      const abort = () => Atomics.store(this.cancelWord[0], this.cancelWord[1], 1);
      const settle = (then) => (value) => {
        signal?.removeEventListener("abort", abort);
        then(value);
      };
      signal?.addEventListener("abort", abort);
      this.waiting.set(id, {resolve: settle(resolve), reject: settle(reject), onEvent});
      this.worker.postMessage({id, call, request, files});
    });
  }

  end() {
    this.worker.terminate();
    this.fail("the worker was ended");
  }
}

let worker, threadsWanted;

/** Settings for everything that follows; before the first pipeline. */
export function configure({threads} = {}) {
  if (worker) throw new AccelError({name: "argument", message: "configure() comes before the first pipeline", remedy: "call dispose() first"});
  threadsWanted = threads;
}

const start = async () => {
  worker ??= new Module(threadsWanted);
  await worker.ready;
  return worker;
};

/** Ends the worker with all its pipelines and gives their memory back. */
export function dispose() {
  worker?.end();
  worker = undefined;
}

/** What `accel detect --json` says, of the page. */
export const detect = async () => (await start()).call("detect", {});

/* ---- files ---- */

const blobOf = async (value) => {
  if (value instanceof Blob) return value;
  if (value instanceof Response) {
    if (!value.ok) throw new AccelError({name: "not-found", message: `${value.url}: HTTP ${value.status}`, remedy: ""});
    return value.blob();
  }
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value) || typeof value === "string") return new Blob([value]);
  throw new AccelError({name: "argument", message: "a file is a File, Blob, Response, ArrayBuffer, typed array or text", remedy: ""});
};

const filesOfFolder = async (folder, before = "") => {
  const files = [];
  for await (const [name, entry] of folder.entries()) {
    if (entry.kind === "directory") files.push(...(await filesOfFolder(entry, `${before}${name}/`)));
    else files.push({path: before + name, blob: await entry.getFile()});
  }
  return files;
};

/* A folder's name in front of all paths, which <input webkitdirectory> gives, goes. */
const withoutFolder = (files) => {
  const folder = files[0]?.path.split("/", 1)[0] + "/";
  return files.every(({path}) => path.startsWith(folder)) ? files.map(({path, blob}) => ({path: path.slice(folder.length), blob})) : files;
};

const filesOf = async (model) => {
  let files;
  if (typeof model?.entries === "function" && model.kind === "directory") files = await filesOfFolder(model);
  else if (model instanceof Map || Object.getPrototypeOf(model) === Object.prototype)
    files = await Promise.all([...(model instanceof Map ? model : Object.entries(model))].map(async ([path, value]) => ({path, blob: await blobOf(value)})));
  else files = withoutFolder([...model].map((file) => ({path: file.webkitRelativePath || file.name, blob: file})));
  if (!files.some(({path}) => path === "config.json" || path === "model_index.json"))
    throw new AccelError({name: "not-found", message: "the model's files have no config.json", remedy: "hand over the files of its directory by their names"});
  return files;
};

/* Pictures that browsers know and the module does not (WebP, AVIF, GIF) become PNG. */
const pictureOf = async (value) => {
  const blob = await blobOf(value), head = new Uint8Array(await blob.slice(0, 8).arrayBuffer());
  const known = (head[0] === 0xff && head[1] === 0xd8) || (head[0] === 0x89 && head[1] === 0x50);
  if (known) return blob;
  const bitmap = await createImageBitmap(blob, {colorSpaceConversion: "none", premultiplyAlpha: "none"}).catch(() => {
    throw new AccelError({name: "format", message: `${blob.name || "picture"}: neither the library nor the browser can decode it`, remedy: "hand over JPEG or PNG"});
  });
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  return canvas.convertToBlob({type: "image/png"});
};

/* ---- pipelines ---- */

const list = (value) => (Array.isArray(value) ? value : [value]);
const one = (value, answers) => (Array.isArray(value) ? answers : answers[0]);

/* Vectors by text: Float32Array of one text, or one for each token of it. */
const rows = ({data, dim, perToken, rowStart}, i) => {
  const row = (r) => data.subarray(r * dim, (r + 1) * dim);
  if (!perToken) return row(i);
  return Array.from({length: rowStart[i + 1] - rowStart[i]}, (_, k) => row(rowStart[i] + k));
};

const tasks = {
  "feature-extraction": async (run, texts, options) => {
    const found = await run("embed", {texts: list(texts), ...options});
    return one(texts, list(texts).map((_, i) => rows(found, i)));
  },
  "text-classification": async (run, texts, options) => one(texts, await run("classify", {texts: list(texts), ...options})),
  "image-classification": async (run, images, options) =>
    one(images, await run("classify_images", {top_k: 5, ...options, images: await Promise.all(list(images).map(pictureOf))})),
  "text-generation": async (run, texts, {max_new_tokens, seed, onToken, ...config}) => {
    const onEvent = (event) => event.event === "token" && onToken?.(event);
    const {sequences, ...figures} = await run("generate", {texts: list(texts), max_new_tokens, seed, stream: Boolean(onToken), config}, onEvent);
    return one(texts, sequences.map((sequence) => Object.assign(sequence, figures)));
  },
};

export const supportedTasks = Object.keys(tasks);

/** Loads a model for a task and gives a function that runs it. */
export async function pipeline(task, model, {precision, architecture, device = "cpu", onProgress} = {}) {
  if (!Object.hasOwn(tasks, task))
    throw new AccelError({name: "unsupported", message: `task '${task}' is not there in browsers`, remedy: `one of ${supportedTasks.join(", ")}`});
  const to = await start(), progress = (event) => event.event === "progress" && onProgress?.(event);
  const opened = await to.call("open", {task, precision, architecture, device}, {files: await filesOf(model), onEvent: progress});
  const run = (input, {signal, ...options} = {}) =>
    tasks[task]((call, request, onEvent) => to.call(call, {endpoint: opened.endpoint, ...request}, {onEvent, signal}), input, options);
  run.task = task;
  run.placement = opened.placement;
  run.threads = opened.threads;
  run.dispose = () => to.call("close", {folder: opened.folder, endpoint: opened.endpoint});
  return run;
}

/** Runs a golden file that lies among the model's files (docs/verify.md). */
export async function verify(model, golden, {precision, architecture, device = "cpu"} = {}) {
  return (await start()).call("verify", {golden, precision, architecture, device}, {files: await filesOf(model)});
}

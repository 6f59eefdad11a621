/**
 * libaccel in a web page (docs/browser.md).
 *
 *     import * as accel from "./accel.mjs";
 *     const embed = await accel.pipeline("feature-extraction", files);
 *     const vector = await embed("a text");
 *
 * Everything runs in one worker, and on the GPU by the calls of another: a call waits for those before it.
 */

/** What one file of a model may be.  A Response is read to its end; the page has fetched it. */
export type FileLike = Blob | Response | ArrayBuffer | ArrayBufferView | string;

/**
 * A model's directory: files of an `<input webkitdirectory>` or a drop, files by their names
 * ("config.json", "1_Pooling/config.json"), or a folder of the origin's private file system.
 * Files and Blobs are read where they are while the model is loaded, and are not copied before.
 */
export type ModelFiles = FileList | File[] | Record<string, FileLike> | Map<string, FileLike> | FileSystemDirectoryHandle;

export type Task = "feature-extraction" | "text-classification" | "image-classification" | "text-generation";
export const supportedTasks: Task[];

export type Precision = "fp32" | "fp16" | "bf16" | "int8" | "int4" | "uint4" | "fp8" | "fp4";

export interface PipelineOptions {
  /** Default: fp32, or a quantised checkpoint's own. */
  precision?: Precision;
  /** Class of transformers, "BertForMaskedLM"; default: architectures[0] of config.json. */
  architecture?: string;
  /**
   * Default: "cpu".  "webgpu": the browser's GPU, where the page is cross-origin isolated; "webgpu,cpu": there if it can,
   * else on the processor.  detect() tells what there is, and why not.
   */
  device?: string;
  /** `total` is 0 where it is not known. */
  onProgress?: (progress: {what: string; done: number; total: number}) => void;
}

export interface CallOptions {
  /** Ends the call with the status "cancelled".  Only where the page is cross-origin isolated; else it is refused. */
  signal?: AbortSignal;
}

export interface EmbedOptions extends CallOptions {
  /** Default: what modules.json says; without it "none", a vector for each token. */
  pooling?: "mean" | "cls" | "max" | "mean_sqrt_len_tokens" | "weightedmean" | "lasttoken" | "none";
  /** 1: scaled to length 1, 0: not; default: as the model says. */
  normalize?: 0 | 1;
  /** Put in front of each text. */
  prompt?: string;
  /** One of the prompts of config_sentence_transformers.json. */
  prompt_name?: string;
}

export interface ClassifyOptions extends CallOptions {
  /** Labels given, best first; 0: all.  Default: 5 of pictures, 1 of texts. */
  top_k?: number;
  /** Default: as transformers chooses. */
  function_to_apply?: "softmax" | "sigmoid" | "none";
}

/** Further fields are those of transformers' GenerationConfig: do_sample, temperature, top_p, num_beams ... */
export interface GenerateOptions extends CallOptions {
  /** Default: the model's; without one 256. */
  max_new_tokens?: number;
  seed?: number;
  /** Each token as it is chosen; the texts, put together, are the result's.  With beams they come when the search has ended. */
  onToken?: (token: {prompt: number; sequence: number; id: number; text: string; finish?: string}) => void;
  [field: string]: unknown;
}

export interface Label {
  label: string;
  score: number;
}

export interface Generation {
  /** Number of the prompt. */
  prompt: number;
  /** The generated text alone. */
  text: string;
  ids: number[];
  finish: "eos" | "stop" | "length" | "time" | "cancelled";
  /** Of the whole call: tokens, and milliseconds until every prompt had its first one and from then on. */
  prompt_tokens: number;
  new_tokens: number;
  prefill_ms: number;
  decode_ms: number;
}

/** A vector; of models without pooling one for each token. */
export type Vectors = Float32Array | Float32Array[];
/** JPEG and PNG are decoded by the library, everything else by the browser. */
export type Picture = Blob | Response | ArrayBuffer | ArrayBufferView;

interface Pipeline<Input, Output, Options> {
  (input: Input, options?: Options): Promise<Output>;
  (inputs: Input[], options?: Options): Promise<Output[]>;
  readonly task: Task;
  /** "cpu fp32 ..." as accel_placement() says it. */
  readonly placement: string;
  /** Threads that compute; 1 where the page is not cross-origin isolated. */
  readonly threads: number;
  /** Gives the model's memory back to the module. */
  dispose(): Promise<void>;
}

export function pipeline(task: "feature-extraction", model: ModelFiles, options?: PipelineOptions): Promise<Pipeline<string, Vectors, EmbedOptions>>;
export function pipeline(task: "text-classification", model: ModelFiles, options?: PipelineOptions): Promise<Pipeline<string, Label[], ClassifyOptions>>;
export function pipeline(task: "image-classification", model: ModelFiles, options?: PipelineOptions): Promise<Pipeline<Picture, Label[], ClassifyOptions>>;
export function pipeline(task: "text-generation", model: ModelFiles, options?: PipelineOptions): Promise<Pipeline<string, Generation, GenerateOptions>>;

/** `threads`: at most so many; default: what the browser tells.  Before the first pipeline. */
export function configure(settings: {threads?: number}): void;
/** Ends the worker and all pipelines; the browser takes their memory back. */
export function dispose(): void;
/** The object of `accel detect --json`, of this page. */
export function detect(): Promise<Record<string, unknown>>;

export interface VerifyReport {
  pass: boolean;
  precision: string;
  outputs: {name: string; max_abs: number; cosine: number; bound: number; pass: boolean; note: string}[];
}
/** Runs the golden file of this name among the model's files (docs/verify.md). */
export function verify(model: ModelFiles, golden: string, options?: PipelineOptions): Promise<VerifyReport>;

export class AccelError extends Error {
  /** "not-found", "unsupported", "cancelled" ... as accel_status_name() says it. */
  readonly status: string;
  /** What would help; "". */
  readonly remedy: string;
  /** The accel_status. */
  readonly code?: number;
}

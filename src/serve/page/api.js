// The server's API as the page uses it: the list of models, and one answer as a stream.

import { loadKey } from "./store.js";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const headers = () => ({ "Content-Type": "application/json", ...(loadKey() ? { Authorization: `Bearer ${loadKey()}` } : {}) });

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: headers() });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new ApiError(answer.status, body?.error?.message ?? `The server answered with status ${answer.status}`);
}

// [{id, tasks, max_model_len}]; the length of a model's context is known once it is loaded
export async function listModels() {
  const answer = await call("/v1/models", {});
  return (await answer.json()).data;
}

// The events' data, as they come.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

// Asks for an answer; calls on.reasoning(text) and on.text(text) for each piece. -> {finish, usage}
export async function streamAnswer(request, signal, on) {
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  const answer = await call("/v1/chat/completions", { method: "POST", body, signal });
  const end = { finish: "", usage: null };
  let complete = false;
  try {
    for await (const data of events(answer.body)) {
      if (data === "[DONE]") {
        complete = true;
        break;
      }
      readChunk(JSON.parse(data), end, on);
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError(0, "The connection to the server broke off.");
  }
  if (!complete) throw new ApiError(0, "The connection to the server broke off.");
  return end;
}

function readChunk(chunk, end, on) {
  if (chunk.error) throw new ApiError(500, chunk.error.message ?? "The server gave up on this answer");
  if (chunk.usage) end.usage = chunk.usage;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  if (choice.delta?.reasoning_content) on.reasoning(choice.delta.reasoning_content);
  if (choice.delta?.content) on.text(choice.delta.content);
  if (choice.finish_reason) end.finish = choice.finish_reason;
}

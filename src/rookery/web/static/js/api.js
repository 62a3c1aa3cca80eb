// Requests to the dashboard's own server.

class ApiError extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

/** The JSON at a path of the API; `query` values that are null are omitted. An error has the server's sentence. */
export async function get(path, query = {}, signal = undefined) {
  const response = await fetch(address(path, query), { signal, headers: { Accept: "application/json" } });
  return answer(response);
}

/** Change something: needs --allow-control. A restarted server has another CSRF token: it is read again. */
export async function post(path, body = {}) {
  const known = token;
  const response = await send(path, body);
  if (response.status !== 403 || known === null) return answer(response);
  token = null;
  return answer(await send(path, body));
}

async function send(path, body) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": await csrfToken() };
  return fetch(path, { method: "POST", body: JSON.stringify(body), headers });
}

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const words = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return words ? `${path}?${words}` : path;
}

/** A part of a path: the name of a run may contain any letter. */
export const part = encodeURIComponent;

let token = null;
async function csrfToken() {
  token ??= (await get("/api/session")).csrf;
  return token;
}

/** What a response holds; one that is none is an error. */
export async function answer(response) {
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(found.error ?? `the server answered ${response.status}`, response.status);
  return found;
}

// How a run is named in addresses: PLACE/NAME, where neither contains a slash.

/** "runs/a" -> ["runs", "a"]. */
export function split(id) {
  const at = id.indexOf("/");
  return [id.slice(0, at), id.slice(at + 1)];
}

/** The page of a run, or what the API says of it: runPath("/api/runs", id, "/metrics"). */
export const runPath = (before, id, after = "") => `${before}/${split(id).map(part).join("/")}${after}`;

/** Several runs in one word of a query, divided by commas; those in names are written otherwise. */
export const idList = (ids) => ids.map((id) => id.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");

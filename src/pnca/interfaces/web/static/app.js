"use strict";
// Links and forms with data-into="ID" replace that part of the page by the same part of their answer.
// Parts with data-with="ID" are replaced together with it.
// Without this script they are ordinary links and forms.

// Screen readers are told everything; shown is only what stands nowhere else on the page.
const said = (text, isShown = false) => {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("unseen", !isShown);
};
let current = null; // the request under way: a newer one takes its place

async function load(address, { into = "main", options = {}, history: mode = "push" } = {}) {
  current?.abort();
  const own = current = new AbortController();
  const focused = document.activeElement?.id;
  document.documentElement.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(address, { ...options, signal: own.signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = page.getElementById(into) ?? page.getElementById("main");
    if (!part) throw new Error("no such part");
    document.getElementById(part.id).replaceWith(document.adoptNode(part));
    page.querySelectorAll(`[data-with="${part.id}"]`).forEach((other) => {
      document.getElementById(other.id)?.replaceWith(document.adoptNode(other));
    });
    if (part.id === "main") {
      document.querySelectorAll(".top nav a").forEach((link, place) => {
        const other = page.querySelectorAll(".top nav a")[place];
        if (other?.hasAttribute("aria-current")) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      });
    }
    document.title = page.title;
    if (response.ok && mode === "push") history.pushState({}, "", response.url);
    if (response.ok && mode === "replace") history.replaceState({}, "", response.url);
    prepare();
    said(part.dataset.said ?? part.querySelector("[data-said]")?.dataset.said ?? page.title);
    const again = focused && document.getElementById(focused);
    if (part.id !== "main" && again) again.focus({ preventScroll: true });
    if (part.id === "main") {
      part.querySelector("h1")?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  } catch (error) {
    if (error.name !== "AbortError") said("The server does not answer. Is it still running?", true);
  } finally {
    if (current === own) {
      current = null;
      document.documentElement.removeAttribute("aria-busy");
    }
  }
}

function send(form, files) {
  const data = new FormData();
  let size = 0;
  for (const file of files) {
    data.append("files", file, file.name);
    size += file.size;
  }
  if (size > Number(form.dataset.maxBytes)) {
    said(`These files have ${Math.round(size / 2 ** 20)} MiB, of ${Math.round(form.dataset.maxBytes / 2 ** 20)} at most: choose fewer.`, true);
    return;
  }
  said(`Reading ${files.length === 1 ? files[0].name : `${files.length} files`} …`, true);
  load(form.action, { into: form.dataset.into, options: { method: "POST", body: data } });
}

function ask(form, mode) {
  const address = new URL(form.action, location.href);
  // Order and filter may have changed since the form was made: what the address says counts.
  const asked = new URLSearchParams(location.pathname === address.pathname ? location.search : "");
  for (const name of ["sort", "descending", "reason"]) if (form.elements[name]) form.elements[name].remove();
  new FormData(form).forEach((value, name) => asked.set(name, value));
  asked.delete("page");
  address.search = asked;
  load(address, { into: form.dataset.into, history: mode });
}

function prepare() {
  document.querySelectorAll("form[data-live] button, form#drop button").forEach((button) => { button.hidden = true; });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-into]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  load(link.href, { into: link.dataset.into });
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.into) return;
  event.preventDefault();
  if (form.id === "drop") send(form, form.elements.files.files);
  else ask(form, "push");
});

let waiting = 0; // a slider that moves asks once it rests
document.addEventListener("input", (event) => {
  const field = event.target;
  if (field.dataset.percent) {
    document.getElementById(field.dataset.percent).textContent = `${Number((100 * field.value).toPrecision(3))} %`;
  }
  if (!field.form || !("live" in field.form.dataset)) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => ask(field.form, "replace"), 150);
});

document.addEventListener("change", (event) => {
  const form = event.target.form;
  if (form?.id === "drop" && event.target.files.length) send(form, event.target.files);
});

for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const form = document.getElementById("drop");
    if (!form) return;
    event.preventDefault();
    form.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) send(form, event.dataTransfer.files);
  });
}

window.addEventListener("popstate", () => load(location.href, { history: "none" }));
prepare();

// Shows /openapi.json. Strings are inserted as text, never as markup.

const make = (name, text = "", marks = {}) => {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  for (const [mark, value] of Object.entries(marks)) node.setAttribute(mark, value);
  return node;
};

const resolveRef = (spec, schema) =>
  schema?.$ref ? schema.$ref.split("/").slice(1).reduce((place, step) => place?.[step], spec) : schema;

const typeOf = (spec, schema) => {
  const found = resolveRef(spec, schema);
  if (!found) return "";
  if (found.enum) return found.enum.map((value) => JSON.stringify(value)).join(" | ");
  if ("const" in found) return JSON.stringify(found.const);
  const choices = found.anyOf || found.oneOf;
  if (choices) return choices.map((choice) => typeOf(spec, choice)).join(" | ");
  if (found.type === "array") return `list of ${typeOf(spec, found.items) || "anything"}`;
  return found.title && found.type === "object" ? found.title : [].concat(found.type || "anything").join(" | ");
};

const table = (headings, rows) => {
  const element = make("table");
  const head = element.createTHead().insertRow();
  headings.forEach((heading) => head.append(make("th", heading)));
  const body = element.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, place) => {
      const box = line.insertCell();
      box.append(place === 0 ? make("code", cell) : document.createTextNode(cell ?? ""));
    });
  }
  return element;
};

const parametersOf = (spec, operation) =>
  (operation.parameters || []).map((parameter) => [
    parameter.name, parameter.in + (parameter.required ? ", needed" : ""), typeOf(spec, parameter.schema), parameter.description || "",
  ]);

const bodyOf = (spec, operation) => {
  const rows = [];
  for (const [media, content] of Object.entries(operation.requestBody?.content || {})) {
    const schema = resolveRef(spec, content.schema);
    const names = Object.entries(schema?.properties || {});
    if (!names.length) rows.push([media, "", typeOf(spec, schema), ""]);
    for (const [name, inner] of names)
      rows.push([media, name + ((schema.required || []).includes(name) ? " *" : ""), typeOf(spec, inner), inner.description || ""]);
  }
  return rows;
};

const answersOf = (spec, operation) =>
  Object.entries(operation.responses).map(([status, answer]) => {
    const [media, content] = Object.entries(answer.content || {})[0] || [];
    const schema = resolveRef(spec, content?.schema);
    return [status, answer.description, media || "", schema?.title || ""];
  });

const trial = (method, path, operation) => {
  const form = make("form", "", { class: "try" });
  const inputs = (operation.parameters || []).map((parameter) => {
    const label = make("label", parameter.name);
    const input = make("input", "", parameter.required ? { required: "" } : {});
    label.append(input);
    form.append(label);
    return [parameter, input];
  });
  let file = null;
  if (operation.requestBody) {
    const label = make("label", "body");
    file = operation.requestBody.content["multipart/form-data"]
      ? make("input", "", { type: "file" })
      : make("textarea", "{}", { rows: "3" });
    label.append(file);
    form.append(label);
  }
  const button = make("button", `Send ${method}`);
  const output = make("pre", "", { hidden: "" });
  form.append(button, output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const headers = {};
    const key = document.getElementById("key").value.trim();
    if (key) headers.Authorization = `Bearer ${key}`;
    const url = new URL(path.replace(/\{(\w+)\}/g, (_, name) => {
      const found = inputs.find(([parameter]) => parameter.in === "path" && parameter.name === name);
      return encodeURIComponent(found ? found[1].value : "");
    }), location.origin);
    for (const [parameter, input] of inputs) {
      if (!input.value) continue;
      if (parameter.in === "query") url.searchParams.set(parameter.name, input.value);
      if (parameter.in === "header") headers[parameter.name] = input.value;
    }
    let body;
    if (file?.files) {
      body = new FormData();
      for (const selected of file.files) body.append("file", selected);
    } else if (file) {
      body = file.value;
      headers["Content-Type"] = "application/json";
    }
    output.hidden = false;
    output.textContent = "…";
    try {
      const answer = await fetch(url, { method, headers, body, credentials: "omit" });
      const media = answer.headers.get("content-type") || "";
      let shown = media.includes("json") ? JSON.stringify(await answer.json(), null, 2) : `(${media || "no body"})`;
      if (media.startsWith("text/")) shown = (await answer.text()).slice(0, 20000);
      output.textContent = `${answer.status} ${answer.statusText}\n\n${shown}`;
    } catch (error) {
      output.textContent = String(error);
    }
  });
  return form;
};

const show = (spec) => {
  document.getElementById("about").textContent = `${spec.info.description} Version ${spec.info.version}.`;
  const main = document.getElementById("operations");
  const groups = new Map();
  for (const [path, operations] of Object.entries(spec.paths))
    for (const [method, operation] of Object.entries(operations)) {
      const group = operation.tags?.[0] || "other";
      groups.set(group, [...(groups.get(group) || []), [method.toUpperCase(), path, operation]]);
    }
  for (const [group, entries] of groups) {
    main.append(make("h2", group));
    for (const [method, path, operation] of entries) {
      const details = make("details");
      const summary = make("summary");
      summary.append(make("span", method, { class: "method" }), make("code", path), make("span", operation.summary || ""));
      summary.append(make("span", operation["x-role"] || operation["x-callers"] || "open", { class: "role" }));
      details.append(summary);
      details.addEventListener("toggle", () => {
        if (details.children.length > 1) return;
        const inside = make("div", "", { class: "inside" });
        for (const paragraph of (operation.description || "").split("\n\n")) inside.append(make("p", paragraph));
        const parameters = parametersOf(spec, operation);
        if (parameters.length) inside.append(make("h3", "Parameters"), table(["name", "where", "type", ""], parameters));
        const body = bodyOf(spec, operation);
        if (body.length) inside.append(make("h3", "Body"), table(["content type", "field", "type", ""], body));
        inside.append(make("h3", "Answers"), table(["status", "", "content type", "shape"], answersOf(spec, operation)));
        inside.append(make("h3", "Try it"), trial(method, path, operation));
        details.append(inside);
      });
      main.append(details);
    }
  }
  main.setAttribute("aria-busy", "false");
  const codes = document.querySelector("#codes tbody");
  for (const [code, meaning] of Object.entries(spec["x-problem-codes"] || {})) {
    const row = make("tr", "", { id: code });
    const cell = make("td");
    cell.append(make("code", code));
    row.append(cell, make("td", meaning));
    codes.append(row);
  }
};

document.getElementById("access").addEventListener("submit", (event) => event.preventDefault());
fetch("/openapi.json", { credentials: "omit" })
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => { document.getElementById("about").textContent = `The description cannot be loaded: ${error}`; });

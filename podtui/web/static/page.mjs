// A terminal in the page, connected to one podtui process by a WebSocket.
//
// Page to server: binary messages are input; text messages are {"kind": "size", columns, rows} and
// {"kind": "taken", bytes}, the number of bytes drawn since the start.
// Server to page: binary messages are output; text messages are
// {"kind": "ended" | "refused", text}.

import { Terminal } from "./xterm.mjs";
import { FitAddon } from "./addon-fit.mjs";
import { Unicode11Addon } from "./addon-unicode11.mjs";
import { WebglAddon } from "./addon-webgl.mjs";

const FONT = '"podtui mono"';
const FONT_SIZE = 15;
const ACKNOWLEDGE_EACH = 8 * 1024; // bytes drawn between two "taken" messages
const PIECE = 16 * 1024; // characters per message; the server rejects longer ones
const TITLE = document.title;

const place = document.getElementById("terminal");
const notice = document.getElementById("notice");
const encoder = new TextEncoder();
const mac = /Mac|iPhone|iPad/.test(navigator.platform);

const terminal = new Terminal({
  allowProposedApi: true, // for the widths of Unicode 11
  cursorBlink: false,
  fontFamily: `${FONT}, "DejaVu Sans Mono", Menlo, Consolas, monospace`,
  fontSize: FONT_SIZE,
  lineHeight: 1,
  macOptionIsMeta: true,
  scrollback: 0,
  theme: { background: "#0f141b", foreground: "#cdd6e1" },
});
const fit = new FitAddon();
let socket = null;
let noticeTimer = 0;
let margin = "";

function say(text, seconds = 0) {
  clearTimeout(noticeTimer);
  notice.textContent = text;
  notice.hidden = !text;
  if (seconds) noticeTimer = setTimeout(() => say(""), seconds * 1000);
}

function open() {
  return socket !== null && socket.readyState === WebSocket.OPEN;
}

function send(message) {
  if (open()) socket.send(JSON.stringify(message));
}

function sendSize() {
  send({ kind: "size", columns: terminal.cols, rows: terminal.rows });
}

function type(data) {
  if (!open()) return;
  for (let at = 0; at < data.length; ) {
    let end = Math.min(at + PIECE, data.length);
    // Do not split a surrogate pair.
    if (end < data.length && /[\uD800-\uDBFF]/.test(data[end - 1])) end -= 1;
    socket.send(encoder.encode(data.slice(at, end)));
    at = end;
  }
}

// Draw the output of one connection, and acknowledge the bytes drawn.
function painter() {
  let drawn = 0;
  let acknowledged = 0;
  return (bytes) => terminal.write(bytes, () => {
    drawn += bytes.length;
    if (drawn - acknowledged >= ACKNOWLEDGE_EACH) {
      acknowledged = drawn;
      send({ kind: "taken", bytes: drawn });
    }
  });
}

function connect() {
  say("");
  terminal.reset();
  const draw = painter();
  let last = "The connection is lost. If 'podtui web' still runs, Enter tries again; else start it"
    + " and open the link that it prints.";
  const mine = new WebSocket(new URL("terminal", location.href.replace(/^http/, "ws")));
  mine.binaryType = "arraybuffer";
  socket = mine;
  mine.addEventListener("open", () => {
    fit.fit();
    sendSize();
    terminal.focus();
  });
  mine.addEventListener("message", (event) => {
    if (typeof event.data === "string") {
      last = JSON.parse(event.data).text;
    } else {
      draw(new Uint8Array(event.data));
    }
  });
  mine.addEventListener("close", () => {
    if (socket === mine) say(last);
  });
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    say(`The browser did not let podtui copy: ${error.message}`, 5);
  }
}

// Handle OSC 52: podtui may write the clipboard. Requests to read it are ignored.
function onCopy(data) {
  const text = data.slice(data.indexOf(";") + 1);
  if (text === "?") return true;
  try {
    copy(new TextDecoder().decode(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0))));
  } catch (error) {
    console.warn("podtui: cannot be copied:", error.message);
  }
  return true;
}

// Show notifications in the tab title while the tab is in the background.
function call(text) {
  if (document.hidden) document.title = text ? `● ${text}` : `● ${TITLE}`;
}

function onKey(event) {
  if (event.type !== "keydown") return true;
  if (!open()) {
    if (event.key === "Enter" && (socket === null || socket.readyState === WebSocket.CLOSED)) {
      connect();
    }
    return false;
  }
  if (mac || !event.ctrlKey || event.altKey) return true;
  const key = event.key.toLowerCase();
  if (key === "v") return false; // leave it to the browser, which pastes
  if (key === "c" && terminal.hasSelection()) {
    copy(terminal.getSelection());
    terminal.clearSelection();
    event.preventDefault();
    return false;
  }
  return true;
}

// Paint the margin beyond the last whole cell in the colour of the screen's edge. Use the middle
// row, because status lines have different colours.
function paintMargin() {
  const line = terminal.buffer.active.getLine(Math.floor(terminal.rows / 2));
  const cell = line && line.getCell(terminal.cols - 1);
  const colour = cell && cell.isBgRGB() ? `#${cell.getBgColor().toString(16).padStart(6, "0")}` : "";
  if (colour === margin) return;
  margin = colour;
  document.body.style.backgroundColor = colour;
}

async function start() {
  const fonts = [400, 700].map((weight) => document.fonts.load(`${weight} ${FONT_SIZE}px ${FONT}`));
  for (const font of await Promise.allSettled(fonts)) {
    if (font.reason) console.info("podtui: drawn in another font:", font.reason.message);
  }
  terminal.loadAddon(fit);
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = "11";
  terminal.parser.registerOscHandler(52, onCopy);
  terminal.parser.registerOscHandler(9, (text) => {
    call(text);
    return true;
  });
  terminal.attachCustomKeyEventHandler(onKey);
  terminal.open(place);
  try {
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => webgl.dispose());
    terminal.loadAddon(webgl);
  } catch (error) {
    console.info("podtui: drawn without WebGL:", error.message);
  }
  // Send right clicks to podtui, or with shift to the browser.
  place.addEventListener("contextmenu", (event) => {
    if (!event.shiftKey) event.preventDefault();
  });
  terminal.onData(type);
  // Mouse reports may contain bytes that are not text.
  terminal.onBinary((data) => {
    if (open()) socket.send(Uint8Array.from(data, (sign) => sign.charCodeAt(0) & 255));
  });
  terminal.onResize(sendSize);
  terminal.onBell(() => call(""));
  terminal.onRender(paintMargin);
  new ResizeObserver(() => fit.fit()).observe(place);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) document.title = TITLE;
  });
  connect();
}

start();

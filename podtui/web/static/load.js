// Load the page again if a part of it could not be loaded. Browsers abort requests, also to this
// machine, when a network interface appears, as with the start of each pod.

const AGAIN_MS = 1000;

addEventListener("error", (event) => {
  if (event.target instanceof HTMLScriptElement || event.target instanceof HTMLLinkElement) {
    setTimeout(() => location.reload(), AGAIN_MS);
  }
}, true); // errors of elements do not bubble

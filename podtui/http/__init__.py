"""HTTP towards clients and pods: what aiohttp has no settings for, and what the proxies share."""

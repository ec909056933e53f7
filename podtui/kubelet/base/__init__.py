"""What every part of the kubelet shares: plain types, settings, words, time and retries."""

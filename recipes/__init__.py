"""One script per task, from raw text to a scored model; `zoo list` shows them."""

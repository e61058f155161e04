"""A preview of TF Serving for development: its protocol and its errors, and a page to try a model.

From the inside out: `refused` (what a request is answered that is not served), `models` (what is
served), `work_queue` (how much at a time), `json_tensor` (REST's JSON), `http` (routes, bodies),
`rest` and `grpc_services` (the two protocols), `proxy` (the page before another server), `ports`
and `server` (start and end).
"""

"""Names and addresses of Services: their data path in the pods, DNS, node ports and Ingress.

Everything here follows the objects of the API (Services, EndpointSlices, Pods, Ingresses) and turns
them into plain data first: `backends`. Rules, DNS answers and proxies are computed from that.
"""

"""DNS messages: queries of pods, and answers from the records of the cluster."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.NS
import dns.rdtypes.ANY.PTR
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.rdtypes.IN.SRV
import dns.rrset

from podtui.services.zone import TTL, Answer, Name, Record

HEADER: Final = 12
MAX_QUERY: Final = 4096
"""Bytes of the largest query that is read."""
MAX_STREAM_ANSWER: Final = 65535
_MIN_DATAGRAM: Final = 512
_MAX_DATAGRAM: Final = 4096
_OPTION_SIZE: Final = 11
"""Bytes of an EDNS record without options."""
_ADDRESS_SIZES: Final = {"A": 16, "AAAA": 28}
"""Bytes of an address record whose owner is compressed."""
_MAX_LABEL: Final = 63
_QR: Final = 0x80
_REFRESH, _RETRY, _EXPIRE = 7200, 1800, 86400


class Malformed(Exception):
    """A packet that is no query. ``answer`` is empty if it deserves none."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__()
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Query:
    """``limit`` is the number of bytes that the answer may have; ``kind`` is the text of the record
    type."""

    message: dns.message.Message
    name: Name
    kind: str
    limit: int


def parse_query(data: bytes, *, stream: bool) -> Query:
    """Raises `Malformed`, with the answer for clients of other versions and operations."""
    if len(data) < HEADER or data[2] & _QR:
        raise Malformed
    opcode = (data[2] >> 3) & 0xF
    if opcode != dns.opcode.QUERY:
        raise Malformed(_error(data, dns.rcode.NOTIMP))
    counts = [int.from_bytes(data[start : start + 2]) for start in (4, 6, 8, 10)]
    if counts[:3] != [1, 0, 0] or counts[3] > 2 or len(data) > MAX_QUERY:
        raise Malformed(_error(data, dns.rcode.FORMERR))
    try:
        _question_end(data)
        message = dns.message.from_wire(data, ignore_trailing=True)
    except (dns.exception.DNSException, ValueError) as error:
        raise Malformed(_error(data, dns.rcode.FORMERR)) from error
    question = message.question[0]
    limit = MAX_STREAM_ANSWER
    if not stream:
        limit = min(max(message.payload, _MIN_DATAGRAM), _MAX_DATAGRAM)
    labels = question.name.labels[:-1]
    name = tuple(label.decode("latin-1") for label in labels)
    query = Query(message, name, dns.rdatatype.to_text(question.rdtype), limit)
    if message.edns > 0:
        raise Malformed(error_answer(query, dns.rcode.BADVERS))
    if question.rdclass != dns.rdataclass.IN:
        raise Malformed(error_answer(query, dns.rcode.REFUSED))
    return query


def _error(data: bytes, code: dns.rcode.Rcode) -> bytes:
    """Return an answer to a query that cannot be parsed: only its header."""
    flags = bytes([_QR | data[2] & 0x79, code])
    return data[:2] + flags + bytes(8)


def _response(query: Query, code: dns.rcode.Rcode) -> dns.message.Message:
    response = dns.message.make_response(
        query.message, recursion_available=True, our_payload=_MAX_DATAGRAM
    )
    response.set_rcode(code)
    return response


def error_answer(query: Query, code: dns.rcode.Rcode) -> bytes:
    return _response(query, code).to_wire()


def render(query: Query, answer: Answer, external: dns.message.Message | None = None) -> bytes:
    """Return the answer as a message. ``external`` is the resolver's for the name at which the
    aliases end. Addresses that do not fit are left out at random, and the message says so.

    Raises `dns.exception.DNSException` if a record cannot be written.
    """
    response = _response(query, dns.rcode.from_text(answer.code))
    response.flags |= dns.flags.AA
    records = _fitting(query, answer.records)
    if len(records) < len(answer.records):
        response.flags |= dns.flags.TC
    _add(response.answer, records, query)
    _add(response.authority, answer.authority, query)
    _add(response.additional, answer.additional, query)
    if external is not None:
        response.answer += external.answer
    return response.to_wire(max_size=query.limit, prefer_truncation=True)


def _fitting(query: Query, records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Return the records of an answer; the addresses of its question in random order, as far as
    they fit."""
    if not records or (size := _ADDRESS_SIZES.get(records[0].type)) is None:
        return records
    question = sum(len(label) + 1 for label in query.name) + 5
    places = (query.limit - HEADER - question - _OPTION_SIZE) // size
    return tuple(random.sample(records, min(places, len(records))))


def _add(section: list[dns.rrset.RRset], records: tuple[Record, ...], query: Query) -> None:
    sets: dict[tuple[Name, str], dns.rrset.RRset] = {}
    for record in records:
        data = _data(record)
        key = (record.owner, record.type)
        if (rrset := sets.get(key)) is None:
            question = query.message.question[0].name
            owner = question if record.owner == query.name else _name(record.owner)
            rrset = dns.rrset.RRset(owner, dns.rdataclass.IN, data.rdtype)
            sets[key] = rrset
            section.append(rrset)
        rrset.add(data, record.ttl)


def _name(labels: Name) -> dns.name.Name:
    return dns.name.Name((*(label.encode("latin-1", "replace") for label in labels), b""))


def _data(record: Record) -> dns.rdata.Rdata:
    internet = dns.rdataclass.IN
    match record.type:
        case "A":
            return dns.rdtypes.IN.A.A(internet, dns.rdatatype.A, record.address)
        case "AAAA":
            return dns.rdtypes.IN.AAAA.AAAA(internet, dns.rdatatype.AAAA, record.address)
        case "CNAME":
            target = _name(record.target)
            return dns.rdtypes.ANY.CNAME.CNAME(internet, dns.rdatatype.CNAME, target)
        case "PTR":
            return dns.rdtypes.ANY.PTR.PTR(internet, dns.rdatatype.PTR, _name(record.target))
        case "NS":
            return dns.rdtypes.ANY.NS.NS(internet, dns.rdatatype.NS, _name(record.target))
        case "TXT":
            return dns.rdtypes.ANY.TXT.TXT(internet, dns.rdatatype.TXT, record.text)
        case "SRV":
            return dns.rdtypes.IN.SRV.SRV(
                internet,
                dns.rdatatype.SRV,
                0,
                record.weight,
                record.port,
                _name(record.target),
            )
        case "SOA":
            return dns.rdtypes.ANY.SOA.SOA(
                internet,
                dns.rdatatype.SOA,
                _name(("ns", "dns", *record.owner)),
                _name(("hostmaster", *record.owner)),
                record.serial & 0xFFFFFFFF,
                _REFRESH,
                _RETRY,
                _EXPIRE,
                TTL,
            )


# --- relayed messages


def external_query(name: Name, kind: str) -> bytes:
    """Return a query for the resolvers of the node. Raises `dns.exception.DNSException`."""
    return dns.message.make_query(_name(name), kind, use_edns=0, payload=_MAX_DATAGRAM).to_wire()


def parse_answer(data: bytes) -> dns.message.Message:
    """Raises `dns.exception.DNSException` and ValueError."""
    return dns.message.from_wire(data, ignore_trailing=True)


def with_id(message: bytes, identity: bytes) -> bytes:
    return identity + message[2:]


def is_answer_to(query: bytes, answer: bytes) -> bool:
    """Return whether ``answer`` has the id and the question of a query with one question."""
    if len(answer) < HEADER or answer[:2] != query[:2] or not answer[2] & _QR:
        return False
    end = _question_end(query)
    if answer[4:6] == b"\0\0":
        # An error may come without the question.
        return answer[3] & 0xF != dns.rcode.NOERROR
    return answer[4:6] == b"\0\1" and answer[HEADER:end].lower() == query[HEADER:end].lower()


def _question_end(query: bytes) -> int:
    """Raises ValueError for a question whose name is compressed or cut off."""
    position = HEADER
    while position < len(query) and (length := query[position]):
        if length > _MAX_LABEL:
            raise ValueError("compressed question")
        position += length + 1
    if position + 5 > len(query):
        raise ValueError("short question")
    return position + 5


def code_of(answer: bytes) -> int:
    return answer[3] & 0xF


def fitted(answer: bytes, query: Query) -> bytes:
    """Return a relayed answer, without its records if it is longer than the client accepts."""
    if len(answer) <= query.limit:
        return answer
    response = _response(query, dns.rcode.NOERROR)
    response.flags |= dns.flags.TC
    return response.to_wire()

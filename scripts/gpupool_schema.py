"""Checks data against a JSON schema: of the standard only what
report.schema.json needs (type, properties, patternProperties, required, items,
const, enum, minimum, $ref into definitions).
"""
import json
import os
import re

from gpupool_paths import HERE, Problem

NAME = 'report.schema.json'
TYPES = {
    'object': lambda v: isinstance(v, dict),
    'array': lambda v: isinstance(v, list),
    'string': lambda v: isinstance(v, str),
    'boolean': lambda v: isinstance(v, bool),
    'null': lambda v: v is None,
    'integer': lambda v: isinstance(v, int) and not isinstance(v, bool),
    'number': lambda v: isinstance(v, (int, float))
    and not isinstance(v, bool),
}
WORDS = {'integer': 'a whole number', 'number': 'a number',
         'object': 'an object', 'array': 'a list', 'string': 'a text',
         'boolean': 'true or false', 'null': 'null'}


class Mismatch(Exception):
    """Where the data is not as described, and what is accepted there."""


class Schema:

    def __init__(self, schema):
        self.root = schema
        self.patterns = {}

    def resolve(self, rule):
        while '$ref' in rule:
            rule = self.root['definitions'][rule['$ref'].rpartition('/')[2]]
        return rule

    def check(self, value, rule=None, where=''):
        """Raises Mismatch at the first place that does not fit."""
        rule = self.resolve(self.root if rule is None else rule)
        kinds = rule.get('type')
        if kinds is not None:
            kinds = [kinds] if isinstance(kinds, str) else kinds
            if not any(TYPES[kind](value) for kind in kinds):
                raise Mismatch('%s must be %s' % (
                    where or 'it', ' or '.join(WORDS[k] for k in kinds)))
        if 'const' in rule and value != rule['const']:
            raise Mismatch('%s must be %r' % (where, rule['const']))
        if 'enum' in rule and value not in rule['enum']:
            raise Mismatch('%s must be one of %s' % (
                where, ', '.join(map(str, rule['enum']))))
        if ('minimum' in rule and TYPES['number'](value)
                and value < rule['minimum']):
            raise Mismatch('%s must be at least %s' % (where,
                                                       rule['minimum']))
        if isinstance(value, dict):
            self._object(value, rule, where)
        elif isinstance(value, list) and 'items' in rule:
            self._array(value, self.resolve(rule['items']), where)

    def _object(self, value, rule, where):
        for key in rule.get('required', ()):
            if key not in value:
                raise Mismatch('%s is missing' % join(where, key))
        for key, item in value.items():
            found = self.rule_of(key, rule)
            if found is not None:
                self.check(item, found, join(where, key))

    def _array(self, value, rule, where):
        # The curves are long, and nearly always right.
        if rule == {'type': 'integer', 'minimum': 0} and all(
                type(item) is int and item >= 0 for item in value):
            return
        for index, item in enumerate(value):
            self.check(item, rule, '%s[%d]' % (where, index))

    def rule_of(self, key, rule):
        """What an object's schema says of a key; None: nothing."""
        found = rule.get('properties', {}).get(key)
        if found is not None:
            return found
        for pattern, found in rule.get('patternProperties', {}).items():
            if pattern not in self.patterns:
                self.patterns[pattern] = re.compile(pattern)
            if self.patterns[pattern].search(key):
                return found
        return None


def join(where, key):
    return '%s.%s' % (where, key) if where else key


def load():
    """The schema of the reports: beside us when installed, else in stats/."""
    for place in (HERE, os.path.join(os.path.dirname(HERE), 'stats')):
        path = os.path.join(place, NAME)
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                return Schema(json.load(file))
    raise Problem('%s not found; run make install again' % NAME)

"""Recipes: INI text that describes model, data and training completely."""
from __future__ import annotations

import difflib
import os
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional, Union

from ._core import ArgumentError, check, ffi, lib, text
from ._lock import give_lock


def encoded(name: str, value: Any) -> bytes:
    """A str or path as the library takes it: no zero bytes inside."""
    try:
        raw = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name}: is a {type(value).__name__}; it must be a str or a path") from None
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: its character {error.start} is half of a surrogate pair, which UTF-8 does not have"
                            ) from None
    if b"\0" in raw:
        raise ArgumentError(f"{name}: has a zero byte")
    return raw


def as_text(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def assignment(key: str, value: Any) -> bytes:
    """'key="value"', so that a value keeps its quotes and the spaces around it."""
    if isinstance(key, str) and "=" in key:
        raise ArgumentError(f"there is no key {key!r}; docs/keys.md lists them")
    if not isinstance(key, (str, bytes)):
        raise TypeError(f"key: is {key!r}; it must be the name of a key, as \"model.width\"")
    return encoded("key", key) + b'="' + encoded("value", as_text(value)).replace(b'"', b'""') + b'"'


def _no_key(key: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), 1) if isinstance(key, str) else []
    return f"there is no key {key!r}" + (f"; the nearest is {near[0]}" if near else "; docs/keys.md lists them")


def text_of(native: Any) -> str:
    """The text of an ll_recipe; the caller holds the lock of what owns it."""
    out = ffi.new("char **")
    check(lib.ll_recipe_text(native, out))
    try:
        return text(out[0])
    finally:
        lib.ll_text_free(out[0])


def _from_text(text: str) -> "Recipe":
    return Recipe(text=text)


class Recipe(Mapping[str, str]):
    """A recipe as a mapping of all keys ("position.type") to their values as text.

    >>> import longline
    >>> recipe = longline.Recipe({"model.width": 64, "attention.kernel": "favor"})
    >>> recipe["model.width"], recipe["model.heads"]
    ('64', '8')

    Keys: docs/keys.md, or `Recipe.help(key)`. A key that does not exist is ArgumentError, which names the nearest.
    Calls of one recipe from several threads wait for each other.
    """

    _lock: Any
    _of_model = False

    def __init__(self, settings: Optional[Mapping[str, Any]] = None, *, text: Optional[str] = None,
                 _native: Any = None) -> None:
        if _native is None:
            out = ffi.new("ll_recipe **")
            if text is None:
                check(lib.ll_recipe_create(out))
            else:
                check(lib.ll_recipe_parse(out, encoded("text", text), b"recipe"))
            _native = out[0]
        self._r = ffi.gc(_native, lib.ll_recipe_free)
        give_lock(self)
        if settings is not None and not isinstance(settings, Mapping):
            raise TypeError(f"settings: is a {type(settings).__name__}; it must be a mapping of keys to values")
        for key, value in (settings or {}).items():
            self[key] = value

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Recipe":
        """From an .ini file; FileError or ArgumentError names file and line."""
        out = ffi.new("ll_recipe **")
        check(lib.ll_recipe_load(out, encoded("path", path)))
        return cls(_native=out[0])

    def __setitem__(self, key: str, value: Any) -> None:
        if self._of_model:
            raise ArgumentError(f"{key}: model.recipe is a copy, whose change would not change the model; use "
                                f"model.set({key!r}, {value!r}), or change model.recipe.copy() for another model")
        with self._lock:
            check(lib.ll_recipe_set(self._r, assignment(key, value)))

    def __getitem__(self, key: str) -> str:
        try:
            name = encoded("key", key)
        except (TypeError, ArgumentError):
            raise KeyError(_no_key(key, self)) from None
        with self._lock:  # the text is valid until the next call
            value = lib.ll_recipe_get(self._r, name)
            if value != ffi.NULL:
                return text(value)
        raise KeyError(_no_key(key, self))

    def __iter__(self) -> Iterator[str]:
        i = 0
        while lib.ll_recipe_key_at(i) != ffi.NULL:
            yield text(lib.ll_recipe_key_at(i).name)
            i += 1

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @staticmethod
    def help(key: str) -> str:
        """One line on a key: what it is, its unit and range, its choices."""
        i = 0
        while lib.ll_recipe_key_at(i) != ffi.NULL:
            row = lib.ll_recipe_key_at(i)
            if text(row.name) == key:
                choices = f"; one of {text(row.choices).replace('|', ', ')}" if row.choices != ffi.NULL else ""
                return f"{key} ({text(row.type)}, default {text(row.fallback)!r}): {text(row.help)}{choices}"
            i += 1
        raise KeyError(_no_key(key, Recipe()))

    def copy(self) -> "Recipe":
        return Recipe(text=str(self))

    def __reduce__(self) -> Any:
        return _from_text, (str(self),)

    def changed(self) -> Dict[str, str]:
        """The keys that differ from their defaults."""
        default = Recipe()
        return {key: value for key, value in self.items() if value != default[key]}

    def __str__(self) -> str:
        with self._lock:
            return text_of(self._r)

    def __repr__(self) -> str:
        return f"longline.Recipe({self.changed()!r})"

    def _repr_html_(self) -> str:
        from ._html import table
        return table(("key", "value"), self.changed().items())

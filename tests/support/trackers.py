"""A tracker as people write it: odd spacing, keys of their own, an id that is a number."""

from __future__ import annotations

HAND_WRITTEN = """\
{
   "version": 1,
   "owner": {"name": "J\\u00fcrgen", "rate": 1.50, "big": 1e5},

   "items": [
      {"id": "T-1", "slug": "one", "status": "todo", "ownsFiles": ["a.py", "b.py"],
       "mine":   [1,2 , 3]},
      {
         "id": "T-2",
         "status" : "todo",
         "notes": "keep \\/ this"
      },
      {"id":7}
   ]
}

"""

"""The methods' recursions for components that are objects or callables: a `finitesum.problems.finite_sum.FiniteSum`.

Linear models let a method store a number a row and run compiled. Here a component is anything with a value and a gradient:
tables have a row of d numbers for each component, O(n d) in all, and the recursions are plain NumPy, because callables
cannot be compiled. A form is a small frozen dataclass of options with ``init``, ``run_pass`` and ``estimate``; a method's
``general()`` returns its form, and `finitesum.methods.base.with_general_form` is where the kind of the problem decides.
"""

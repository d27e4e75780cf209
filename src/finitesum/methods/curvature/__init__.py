"""Methods that keep a Taylor model of second order, or a part of one."""

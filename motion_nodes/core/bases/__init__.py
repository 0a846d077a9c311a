# SPDX-License-Identifier: Apache-2.0
"""Wheeled bases: conversion between body twist and wheel velocities, limits, odometry. No ROS."""

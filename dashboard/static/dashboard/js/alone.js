// Pages without a frame: sign-in and errors.
import './copy.js';
